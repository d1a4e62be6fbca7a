import type { Arguments } from './parse-command.ts';

/** Flags that say which database is meant: a command that is typed next has to name the same one. */
const PLACES = ['config', 'folder'];

/** What to type next, as it works: with the flags of this command that lead to its database. */
export function nextCommand(args: Arguments, words: string): string {
  const flags = PLACES.flatMap((flag) => {
    const value = args.text(flag);
    return value === undefined ? [] : [` --${flag} ${shellWord(value)}`];
  });
  return `runledger ${words}${flags.join('')}`;
}

/** A word as a shell takes it. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
