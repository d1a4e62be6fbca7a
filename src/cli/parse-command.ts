import { parseArgs } from 'node:util';
import { AppError } from '../contracts/errors.ts';
import { closestName } from '../lib/closest-name.ts';
import { COMMANDS, COMMON_FLAGS, type CommandRow, type Flag } from './command-table.ts';

type Values = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

/** The arguments of one command, with their types checked where they are read. */
export class Arguments {
  readonly positionals: readonly string[];
  readonly #values: Values;

  constructor(positionals: readonly string[], values: Values) {
    this.positionals = positionals;
    this.#values = values;
  }

  has(flag: string): boolean {
    return this.#values[flag] === true;
  }

  text(flag: string): string | undefined {
    const value = this.#values[flag];
    return typeof value === 'string' ? value : undefined;
  }

  list(flag: string): readonly string[] {
    const value = this.#values[flag];
    return Array.isArray(value) ? value : [];
  }

  /** A whole number from `least` on. */
  count(flag: string, least = 0): number | undefined {
    const text = this.text(flag);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least)
      throw new AppError('USAGE', `--${flag} must be a whole number from ${least} on, not '${text}'.`);
    return value;
  }

  choice<T extends string>(flag: string, choices: readonly T[]): T | undefined {
    const text = this.text(flag);
    if (text === undefined) return undefined;
    const found = choices.find((choice) => choice === text);
    if (found === undefined) throw new AppError('USAGE', `--${flag} must be ${choices.join(' or ')}, not '${text}'.`);
    return found;
  }
}

export interface ParsedCommand {
  readonly name: string;
  readonly row: CommandRow;
  readonly args: Arguments;
}

/** The command that the words name. Without one: undefined, and the general help is meant. */
export function parseCommand(words: readonly string[]): ParsedCommand | undefined {
  const at = commandIndex(words);
  if (at === undefined) {
    parseFlags(words, {});
    return undefined;
  }
  const name = words[at]!;
  const row = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!row) {
    const near = closestName(name, Object.keys(COMMANDS));
    throw new AppError('USAGE', `There is no command '${name}'${near ? `; did you mean '${near}'?` : '.'}`);
  }
  const { positionals, values } = parseFlags([...words.slice(0, at), ...words.slice(at + 1)], row.flags);
  const args = new Arguments(positionals, values);
  if (!args.has('help')) checkPositionals(name, row, positionals);
  return { name, row, args };
}

/** The command that the words name, if there is one of that name. */
export function commandName(words: readonly string[]): string | undefined {
  const name = words[commandIndex(words) ?? -1];
  return name !== undefined && Object.hasOwn(COMMANDS, name) ? name : undefined;
}

/** Common flags may stand before the command. */
function commandIndex(words: readonly string[]): number | undefined {
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if (!word.startsWith('-')) return i;
    if (COMMON_FLAGS[word.slice(2)]?.value !== undefined) i++;
  }
  return undefined;
}

function parseFlags(words: readonly string[], own: Readonly<Record<string, Flag>>) {
  const flags = { ...COMMON_FLAGS, ...own };
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, flag]) => [
      name,
      {
        type: flag.value === undefined ? ('boolean' as const) : ('string' as const),
        multiple: flag.many ?? false,
        ...(flag.short === undefined ? {} : { short: flag.short }),
      },
    ]),
  );
  try {
    return parseArgs({ args: [...words], options, allowPositionals: true }) as {
      positionals: string[];
      values: Values;
    };
  } catch (error) {
    throw new AppError('USAGE', usageMessage(error as Error & { code?: string }, Object.keys(flags)));
  }
}

function usageMessage(error: Error & { code?: string }, flags: readonly string[]): string {
  const unknown = /^Unknown option '(-+)([^']*)'/.exec(error.message);
  // Node's own advice about `--` says more than anybody asked.
  if (!unknown) return error.message.split('. ')[0]!.replace(/\.?$/, '.');
  const near = closestName(unknown[2]!, flags);
  return `There is no flag '${unknown[1]}${unknown[2]}'${near ? `; did you mean '--${near}'?` : '.'}`;
}

function checkPositionals(name: string, row: CommandRow, given: readonly string[]): void {
  const needed = row.positionals.filter((word) => !word.startsWith('['));
  if (given.length < needed.length)
    throw new AppError('USAGE', `'${name}' needs ${missing(needed, given.length).join(' and ')}.`, { command: name });
  if (given.length > row.positionals.length) {
    const extra = given[row.positionals.length];
    throw new AppError(
      'USAGE',
      `'${name}' takes ${row.positionals.length || 'no'} argument${row.positionals.length === 1 ? '' : 's'}; '${extra}' is one too many.`,
    );
  }
}

/** What is not given: the second of a kind is another one. */
const missing = (needed: readonly string[], given: number): string[] =>
  needed.slice(given).map((word, i) => (needed.slice(0, given + i).includes(word) ? `another ${word}` : word));
