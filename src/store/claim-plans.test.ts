import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import type { Postgres } from './sql/postgres.ts';
import { overdueRuns } from './sql/work.ts';

let database: TestDatabase;
let client: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

const ROWS = 20_000;

/** Each with all parameters of claim_work: for anybody, for a project, and for a run with its children. */
const CLAIMS = {
  anybody: `'me', 30000, 10, 'native', null, null, null`,
  project: `'me', 30000, 10, 'native', null, null, 'none'`,
  family: `'me', 30000, 10, 'native', array['run-1'], null, null`,
};

/** Blocks that a statement reads, whatever else it runs inside. */
async function blocksOf(text: string): Promise<number> {
  const { rows } = await client.query(`explain (analyze, buffers, format json) ${text}`);
  const plan = rows[0]['QUERY PLAN'][0].Plan;
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
}

test('a claim planned on an empty database reads only what is due, however much waits for its time and however many children there are', async () => {
  const claim = (given: string) => `select * from runledger.claim_work(${given})`;
  // One unit is there, so that the statement that takes it is planned as well.
  await client.query(
    `insert into runledger.work (run_key, unit, tenant_id, engine, available_at) values (0, 'w:now', 't', 'native', clock_timestamp())`,
  );
  for (const given of Object.values(CLAIMS)) await client.query(claim(given));
  await client.query(`delete from runledger.work`);
  await client.query(
    `insert into runledger.runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, parent_run_id)
       select 'run-' || i, 't', 'p', 'e', 'plan', '1', 'parent-' || i % 100 from generate_series(1, ${ROWS}) i`,
  );
  await client.query(
    `insert into runledger.work (run_key, unit, tenant_id, engine, available_at)
       select run_key, 'w:later', 't', 'native', clock_timestamp() + interval '1 day' from runledger.runs`,
  );
  // Due, and nobody's of the project that asks.
  await client.query(`update runledger.work set available_at = clock_timestamp() where run_key in (7, 8)`);
  for (const given of [CLAIMS.project, CLAIMS.family, CLAIMS.anybody]) {
    const blocks = await blocksOf(claim(given));
    expect(blocks, `${blocks} blocks for ${given}`).toBeLessThan(100);
  }
  const { rows } = await client.query(`select count(*)::integer as n from runledger.work where lease_owner = 'me'`);
  expect(rows[0].n).toBe(2);
});

test('the look for units that nobody takes reads only those that are overdue', async () => {
  let blocks = 0;
  const seen: Pick<Postgres, 'query'> = {
    query: async (statement, values = []) => {
      await client.query(`prepare overdue as ${statement.text}`);
      blocks = await blocksOf(`execute overdue(${values.map((value) => `'${value}'`).join(',')})`);
      return [];
    },
  };
  await overdueRuns(seen as Postgres, 'native', { olderThanMs: 1000, limit: 10 });
  expect(blocks).toBeLessThan(100);
});
