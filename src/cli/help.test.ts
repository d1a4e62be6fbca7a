import { expect, test } from 'vitest';
import { COMMANDS } from './command-table.ts';
import { commandHelp, generalHelp } from './help.ts';

test('help fits into the terminal that it is shown in, but for examples, which are to be copied', () => {
  for (const columns of [60, 80, 120])
    for (const [name, row] of Object.entries(COMMANDS)) {
      const [text = ''] = commandHelp(name, row, columns).split('\nExamples:\n');
      const long = text.split('\n').filter((line) => line.length >= columns);
      expect(long, `${name} at ${columns} columns`).toEqual([]);
    }
  expect(
    generalHelp(80)
      .split('\n')
      .filter((line) => line.length >= 80),
  ).toEqual([]);
});
