import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { PostgresStore } from '../store/postgres-store.ts';
import { sampleRun } from '../testing/sample-events.ts';
import { TaskLineWriter } from './task-line-writer.ts';

let database: TestDatabase;
let store: PostgresStore;
beforeAll(async () => {
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url });
});
afterAll(async () => {
  await store.close();
  await database.drop();
});

const place = (runId: string) => ({
  runId,
  stepId: 'a',
  entity: 'a/get:1',
  logicalAttemptId: 1,
  engineAttemptId: 1,
  tenantId: 'acme',
  projectId: 'main',
  environmentId: 'test',
  stream: 'stdout' as const,
});

test('lines of several writers are read once each, in the order of their writer', async () => {
  const run = sampleRun(randomUUID());
  await store.createRun(run);
  const writers = ['one', 'two'].map((name) => new TaskLineWriter(store, name));
  for (let i = 1; i <= 1200; i++)
    for (const writer of writers) writer.write({ ...place(run.runId), line: `line ${i}` });
  await Promise.all(writers.map((writer) => writer.flush()));
  const seen: Record<string, number[]> = { one: [], two: [] };
  const cursor: Record<string, number> = {};
  for (;;) {
    const page = await store.readTaskLines(run.runId, cursor, 500);
    for (const { writer, lineNo, line } of page) {
      cursor[writer] = lineNo;
      seen[writer]!.push(Number(line.slice(5)));
    }
    if (page.length < 500) break;
  }
  const all = Array.from({ length: 1200 }, (_, i) => i + 1);
  expect(seen).toEqual({ one: all, two: all });
  writers[0]!.write({ ...place(run.runId), line: 'later' });
  await writers[0]!.flush();
  expect(await store.readTaskLines(run.runId, cursor)).toMatchObject([{ writer: 'one', line: 'later', stepId: 'a' }]);
});

test('what the database cannot take as text is replaced, and lines of an unknown run are dropped', async () => {
  const run = sampleRun(randomUUID());
  await store.createRun(run);
  const writer = new TaskLineWriter(store, 'odd');
  writer.write({ ...place(run.runId), line: 'a\u0000b\ud800' });
  writer.write({ ...place('no-such-run'), line: 'lost' });
  writer.write({ ...place(run.runId), line: 'x'.repeat(10_000) });
  await writer.flush();
  const lines = await store.readTaskLines(run.runId);
  expect(lines.map(({ line }) => line.slice(0, 10))).toEqual(['a\ufffdb\ufffd', 'xxxxxxxxxx']);
  expect(lines[1]!.line.length).toBeLessThan(9_000);
});

test('a database that is away costs lines and nothing else', async () => {
  const failing = { appendTaskLines: () => Promise.reject(new Error('away')) };
  const writer = new TaskLineWriter(failing, 'away');
  writer.write({ ...place('x'), line: 'lost' });
  await expect(writer.flush()).resolves.toBeUndefined();
});
