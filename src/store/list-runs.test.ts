import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { PostgresStore } from './postgres-store.ts';

let database: TestDatabase;
let store: PostgresStore;
beforeAll(async () => {
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url });
  const scope = { projectId: 'main', environmentId: 'test', planVersion: '1' };
  await store.createRun({ ...scope, runId: 'aa-1', tenantId: 'acme', planId: 'load' });
  await store.createRun({ ...scope, runId: 'aa-2', tenantId: 'acme', planId: 'load', parentRunId: 'aa-1' });
  await store.createRun({ ...scope, runId: 'ab_3', tenantId: 'acme', planId: 'clean' });
  await store.createRun({ ...scope, runId: 'b-4', tenantId: 'other', planId: 'load' });
});
afterAll(async () => {
  await store.close();
  await database.drop();
});

const ids = async (query: Parameters<PostgresStore['listRuns']>[0]): Promise<string[]> =>
  (await store.listRuns(query)).map((run) => run.runId);

test('runs are listed newest first and in pages', async () => {
  expect(await ids({})).toEqual(['b-4', 'ab_3', 'aa-2', 'aa-1']);
  const page = await store.listRuns({ limit: 2 });
  expect(page.map((run) => run.runId)).toEqual(['b-4', 'ab_3']);
  expect(await ids({ limit: 2, beforeKey: page[1]!.runKey })).toEqual(['aa-2', 'aa-1']);
});

test('every filter of the list narrows it', async () => {
  expect(await ids({ tenantId: 'other' })).toEqual(['b-4']);
  expect(await ids({ planId: 'clean' })).toEqual(['ab_3']);
  expect(await ids({ parentRunId: 'aa-1' })).toEqual(['aa-2']);
  expect(await ids({ topLevel: true })).toEqual(['b-4', 'ab_3', 'aa-1']);
  expect(await ids({ idPrefix: 'aa' })).toEqual(['aa-2', 'aa-1']);
  expect(await ids({ idPrefix: 'a%' })).toEqual([]);
  expect(await ids({ idPrefix: 'a\u0000' })).toEqual([]);
  expect(await ids({ statuses: ['COMPLETED', 'FAILED'] })).toEqual([]);
  expect(await ids({ statuses: ['PENDING'], planId: 'clean' })).toEqual(['ab_3']);
});
