import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { FORBIDDEN, historyFromJson } from './history-json.ts';
import { brokenHistories } from './replay-histories.fixture.ts';

const FOLDER = join(import.meta.dirname, '../histories');
const recorded = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.json'))
  .map((file) => ({ file, text: readFileSync(join(FOLDER, file), 'utf8') }));

const broken = (files: readonly { file: string; text: string }[]): Promise<string[]> =>
  brokenHistories(files.map(({ file, text }) => ({ workflowId: file, history: historyFromJson(text) })));

test('ES-6d runs of earlier versions go on: every recorded history is repeated by the workflow of today', async () => {
  expect(recorded.length).toBeGreaterThan(8);
  expect(await broken(recorded)).toEqual([]);
}, 120_000);

test('a workflow that does something else than was recorded is found out', async () => {
  const line = recorded.find(({ file }) => file.endsWith('-line-1.json'))!;
  const other = line.text.replaceAll('"name":"doUnit"', '"name":"doNothing"');
  expect(other).not.toBe(line.text);
  expect(await broken([{ ...line, text: other }])).toEqual([line.file]);
}, 120_000);

test('WE-1d no recorded history holds text of a plan, a value or a secret', () => {
  for (const { file, text } of recorded) {
    // The units are named, so that something would be found.
    expect([file, /unit\\":/.test(text), FORBIDDEN.exec(text)?.[0]]).toEqual([file, true, undefined]);
  }
});
