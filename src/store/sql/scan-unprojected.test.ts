import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import { PostgresStore } from '../postgres-store.ts';
import type { Postgres, Statement } from './postgres.ts';
import { scanUnprojected } from './scan-unprojected.ts';

let database: TestDatabase;
let store: PostgresStore;

beforeAll(async () => {
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url });
  await store.postgres.transaction(async (client) => {
    await client.query('select runledger.ensure_partition(100000)');
    // Runs of two partitions with 40 events each; all but every tenth are projected.
    await client.query(
      `insert into runledger.run_events
         select 99000 + g / 40, g % 40 + 1, 1000 + g / 5, now(), 1, 1, 1, 9, gen_random_uuid(), 's', 'x',
                sha256(g::text::bytea), '', '', '', '{}' from generate_series(0, 79999) g`,
    );
    await client.query(
      `insert into runledger.snapshots select k, 40, '', '' from generate_series(99000, 100999) k where k % 10 <> 0`,
    );
  });
  await store.postgres.query({ name: 'analyze', text: 'analyze runledger.run_events, runledger.snapshots' });
});
afterAll(async () => {
  await store?.close();
  await database?.drop();
});

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly Plans?: readonly PlanNode[];
}
const flatten = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flatten)];

async function nodesOf(after: { era: number; xid: number }, mode: string): Promise<PlanNode[]> {
  let seen: { statement: Statement; values: unknown[] } | undefined;
  const recorder = {
    query: async (statement: Statement, values: unknown[]) => {
      seen = { statement, values };
      return [];
    },
  };
  await scanUnprojected(recorder as unknown as Postgres, { ...after, runKey: 0, runSeq: 0 });
  const { statement, values } = seen!;
  return store.postgres.transaction(async (client) => {
    await client.query(`set local plan_cache_mode = ${mode}`);
    await client.query(`prepare scan as ${statement.text}`);
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
      `explain (analyze, format json) execute scan(${values.join(',')})`,
    );
    await client.query('deallocate scan');
    return flatten(rows[0]!['QUERY PLAN'][0].Plan);
  });
}

test('a page of a large backlog is read along the index, with the values at hand and with a plan for any values', async () => {
  for (const mode of ['force_custom_plan', 'force_generic_plan']) {
    for (const xid of [0, 9000, 16_990]) {
      const nodes = await nodesOf({ era: 1, xid }, mode);
      const events = nodes.filter((node) => node['Relation Name']?.startsWith('run_events'));
      expect(events.map((node) => node['Node Type'])).toEqual(['Index Scan', 'Index Scan']);
      expect(events.reduce((sum, node) => sum + node['Actual Rows'] * node['Actual Loops'], 0)).toBeLessThanOrEqual(
        5002,
      );
      const snapshots = nodes.filter((node) => node['Relation Name'] === 'snapshots');
      expect(snapshots.map((node) => node['Node Type'])).toEqual(['Index Scan']);
    }
  }
});

test('pages follow each other without a hole, and name the runs with events above their watermark', async () => {
  const found = new Map<number, number>();
  let pages = 0;
  for (let next: Parameters<typeof scanUnprojected>[1] | undefined = { era: 0, xid: 0, runKey: 0, runSeq: 0 }; next; ) {
    const page = await scanUnprojected(store.postgres, next);
    for (const run of page.runs) {
      expect(run.firstSeq).toBe((found.get(run.runKey) ?? 0) + 1);
      expect(run.xid).toBe(1000 + Math.floor(((run.runKey - 99_000) * 40 + run.firstSeq - 1) / 5));
      found.set(run.runKey, run.lastSeq);
    }
    pages += 1;
    next = page.next;
  }
  expect(pages).toBe(17);
  expect([...found.keys()].sort((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, i) => 99_000 + i * 10));
  expect(new Set(found.values())).toEqual(new Set([40]));
});
