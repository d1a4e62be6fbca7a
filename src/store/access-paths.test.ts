import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { CATALOGUE } from '../contracts/catalogue.ts';
import { microsToText } from '../lib/time.ts';
import { findRunByProvider, findRuns } from './sql/find-run.ts';
import type { Postgres, Statement } from './sql/postgres.ts';
import { type RunIdentity, readRunEvents, readRunEventsBySeq } from './sql/read-events.ts';
import { readStream, readWindow } from './sql/read-stream.ts';

let database: TestDatabase;
let client: pg.Client;
const RUNS = 1000;
const EVENTS_PER_RUN = 60;
const LONG_RUN = RUNS + 1;
const LONG_RUN_EVENTS = 40_000;
/** One event per millisecond, from here on. */
const START = Date.UTC(2026, 0, 1) * 1000;

beforeAll(async () => {
  database = await createTestDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const { StepStarted, TaskDone, StepCompleted, LoopIterationDone } = CATALOGUE;
  await client.query(
    `insert into runledger.runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version)
       select 'run-' || i, 'tenant-' || i % 20, 'p', 'e', 'plan', '1' from generate_series(1, ${LONG_RUN}) i`,
  );
  await client.query(
    `insert into runledger.run_refs select 'temporal', 'w' || i, 'r' || i, i from generate_series(1, ${LONG_RUN}) i`,
  );
  // Runs beside each other in time, and one that goes on all the while.
  await client.query(
    `with steps as (
       select 1 + i % ${RUNS} as run, 1 + i / ${RUNS} as seq, i as tick from generate_series(0, ${RUNS * EVENTS_PER_RUN - 1}) i
       union all select ${LONG_RUN}, i + 1, i * ${Math.floor((RUNS * EVENTS_PER_RUN) / LONG_RUN_EVENTS)} from generate_series(0, ${LONG_RUN_EVENTS - 1}) i)
     insert into runledger.run_events
       select run, seq, 100 + tick / 1000, to_timestamp(0) + (${START} + tick * 1000::bigint) * interval '1 microsecond', 1, 1, 1,
              (array[${StepStarted.code}, ${TaskDone.code}, ${LoopIterationDone.code}, ${StepCompleted.code}])[1 + seq % 4], gen_random_uuid(),
              'step' || seq / 4 || case seq % 4 when 1 then '/get:1' when 2 then '/7' else '' end, '2026-01-01T00:00:00Z',
              sha256(convert_to(run || '/' || seq, 'UTF8')), sha256('r'), sha256('c'), '\\x00', repeat('x', 120)
         from steps order by tick, run`,
  );
  await client.query(
    `update runledger.runs set last_seq = case run_key when ${LONG_RUN} then ${LONG_RUN_EVENTS} else ${EVENTS_PER_RUN} end`,
  );
  await client.query('vacuum analyze runledger.run_events, runledger.runs, runledger.run_refs');
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly PlanNode[];
}

interface Access {
  readonly nodes: readonly string[];
  readonly indexes: readonly string[];
  readonly pages: number;
}

const flatten = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flatten)];

/** How the database answers a query of the store: with the values at hand, and with a plan for any values. */
async function plansOf(read: (postgres: Postgres) => Promise<unknown>): Promise<Access[]> {
  const seen: { statement: Statement; values: unknown[] }[] = [];
  const recorder = {
    query: async (statement: Statement, values: unknown[] = []) => {
      seen.push({ statement, values });
      return [];
    },
  };
  await read(recorder as unknown as Postgres);
  const [{ statement, values }] = seen as [(typeof seen)[number]];
  const literals = values.map((value) => (value === null ? 'null' : pg.escapeLiteral(literal(value)))).join(', ');
  const accesses: Access[] = [];
  // A statement without a name is planned anew for its values each time.
  for (const mode of statement.name === undefined
    ? ['force_custom_plan']
    : ['force_custom_plan', 'force_generic_plan']) {
    await client.query(`set plan_cache_mode = ${mode}; set jit = off; set max_parallel_workers_per_gather = 0`);
    await client.query(`prepare probe as ${statement.text}`);
    const call = values.length > 0 ? `probe(${literals})` : 'probe';
    const { rows } = await client.query(`explain (analyze, buffers, format json) execute ${call}`);
    await client.query('deallocate probe');
    const top = rows[0]['QUERY PLAN'][0].Plan as PlanNode;
    const nodes = flatten(top);
    const onEvents = nodes.filter((node) => node['Relation Name']?.startsWith('run_events'));
    accesses.push({
      nodes: onEvents.map((node) => node['Node Type']),
      indexes: nodes.flatMap((node) => node['Index Name'] ?? []),
      pages: top['Shared Hit Blocks'] + top['Shared Read Blocks'],
    });
  }
  return accesses;
}

const literal = (value: unknown): string => (Array.isArray(value) ? `{${value.join(',')}}` : String(value));

const runOf = (runKey: number): RunIdentity => ({
  runKey,
  runId: `run-${runKey}`,
  tenantId: 'tenant-1',
  projectId: 'p',
  environmentId: 'e',
  planId: 'plan',
  planVersion: '1',
});
const at = (tick: number): string => microsToText(START + tick * 1000);
const limit = 100;

const PATHS: [string, (postgres: Postgres) => Promise<unknown>, RegExp, number][] = [
  ['(execution, seq)', (p) => readRunEvents(p, runOf(500), { afterSeq: 10, limit }), /pkey/, 100],
  [
    '(execution, seq), a page of a long run',
    (p) => readRunEvents(p, runOf(LONG_RUN), { afterSeq: 20_000, limit }),
    /pkey/,
    120,
  ],
  ['(execution, seq), some records', (p) => readRunEventsBySeq(p, runOf(LONG_RUN), [5, 39_000]), /pkey/, 30],
  [
    '(execution, type)',
    (p) => readRunEvents(p, runOf(500), { types: [CATALOGUE.StepCompleted.code], limit }),
    /type_path|pkey/,
    100,
  ],
  [
    '(execution, type), a rare type of a long run',
    (p) => readRunEvents(p, runOf(LONG_RUN), { types: [CATALOGUE.StepFailed.code], limit }),
    /type_path/,
    60,
  ],
  ['(execution, entity)', (p) => readRunEvents(p, runOf(500), { entity: 'step7', limit }), /type_path|pkey/, 100],
  [
    '(execution, entity) in a long run',
    (p) => readRunEvents(p, runOf(LONG_RUN), { entity: 'step9000', limit }),
    /type_path/,
    400,
  ],
  [
    '(execution, type, entity) in a long run',
    (p) => readRunEvents(p, runOf(LONG_RUN), { entity: 'step9000', types: [CATALOGUE.TaskDone.code], limit }),
    /type_path/,
    60,
  ],
  [
    '(type, time)',
    (p) =>
      readWindow(p, {
        from: at(30_000),
        to: at(30_050),
        types: [CATALOGUE.TaskDone.code],
        tenantId: null,
        after: undefined,
        limit,
      }),
    /persisted_at/,
    600,
  ],
  ['the stream', (p) => readStream(p, { era: 1, xid: 130, runKey: 5, runSeq: 1 }, limit), /stream/, 800],
  ['run by id', (p) => findRuns(p, ['run-77']), /run_id/, 20],
  [
    'run by provider',
    (p) => findRunByProvider(p, { provider: 'temporal', workflowId: 'w5', providerRunId: 'r5' }),
    /run_refs/,
    30,
  ],
];

test.each(PATHS)('NE-6a %s is read through an index, and reads little', async (_name, read, index, pages) => {
  for (const access of await plansOf(read)) {
    expect(access.nodes).not.toContain('Seq Scan');
    expect(access.indexes.filter((name) => index.test(name))).not.toEqual([]);
    expect(access.pages).toBeLessThan(pages);
  }
});
