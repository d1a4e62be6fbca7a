import { expect, test } from 'vitest';
import { ERRORS } from '../contracts/errors.ts';
import { COMMANDS, EXIT_CODES } from './command-table.ts';
import { parseCommand } from './parse-command.ts';

/** The words of an example, as a shell gives them: without what stands before the command or leads the output elsewhere. */
function wordsOf(example: string): string[] {
  const [command = ''] = example.replace(/^.*?\brunledger /, '').split(/ > |\)$/);
  return [...command.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single ?? double ?? bare!,
  );
}

const examples = Object.entries(COMMANDS).flatMap(([name, { examples: own }]) => own.map((line) => ({ name, line })));

test.each(examples)('the example is written as the command takes it: $line', ({ name, line }) => {
  const parsed = parseCommand(wordsOf(line));
  expect(parsed?.name).toBe(name);
  expect(parsed?.args.has('help')).toBe(false);
});

test('every exit code of the table of errors is among those that are documented', () => {
  for (const [code, { exit }] of Object.entries(ERRORS)) expect(EXIT_CODES, code).toHaveProperty([String(exit)]);
});

test('every command says what --json prints, and what it is for in a sentence without its end', () => {
  for (const [name, { json, summary }] of Object.entries(COMMANDS)) {
    expect(json, name).not.toBe('');
    expect(summary, name).toMatch(/^[A-Z].*[^.]$/);
  }
});
