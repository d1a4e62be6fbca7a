import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import { AppError } from '../../contracts/errors.ts';
import { callContext, memoryArtifacts } from '../../testing/call-context.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import { DuckDbTool } from '../duckdb/duckdb-tool.ts';
import type { CallContext, ToolOutcome } from '../tool.ts';
import { csvRecord, parseCsv } from './csv.ts';
import { TransferTool } from './transfer-tool.ts';

let database: TestDatabase;
let admin: pg.Client;
let folder: string;
let tool: TransferTool;
let duck: DuckDbTool;
const artifacts = memoryArtifacts();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'runledger-transfer-'));
  database = await createTestDatabase({ empty: true });
  admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
  tool = new TransferTool({ folder });
  duck = new DuckDbTool({ folder });
});
afterAll(async () => {
  await tool.close();
  await admin.end();
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const move = (source: object, target: object, fields: object = {}, context: Partial<CallContext> = {}) =>
  tool.call({ source, target, ...fields }, callContext({ secrets: { main: database.url }, artifacts, ...context }));
const from = (command: string, params?: unknown) => ({
  kind: 'postgres',
  auth: 'main',
  command,
  ...(params === undefined ? {} : { params }),
});
const into = (table: string, more: object = {}) => ({ kind: 'postgres', auth: 'main', table, ...more });
const stored = async (text: string): Promise<string> => (await artifacts.put(Buffer.from(text), 'k')).uri;
const errorOf = (outcome: ToolOutcome) => {
  if (outcome.status !== 'error') throw new Error(`expected an error, got ${JSON.stringify(outcome.result)}`);
  return outcome.error;
};
const rowsOf = async (sql: string): Promise<unknown[]> => (await admin.query(sql)).rows;
const textOf = async (outcome: ToolOutcome): Promise<string> => {
  if (outcome.status === 'error') throw new Error(outcome.error.message);
  return Buffer.from(await artifacts.get((outcome.result as { artifact: { uri: string } }).artifact.uri)).toString();
};

const EVERYTHING = `create table everything (
  id int primary key, big int8, num numeric(30, 10), f float8, ok bool, t text, d date, ts timestamp, tz timestamptz, iv interval,
  u uuid, j jsonb, b bytea, ints int8[], texts text[], js jsonb[], grid int[], r int4range, e mood)`;
const ROWS = `insert into everything
  select g, 9007199254740993 + g, 12345678901234567890.0123456789, 0.1 + g, g % 2 = 0, E'a"b,\\\\c\\n' || g, date '2024-02-29' + g,
    timestamp '2024-02-29 10:20:30.123456', timestamptz '2024-02-29 10:20:30.5+05:30', interval '1 mon 2 days 03:04:05.6',
    gen_random_uuid(), jsonb_build_object('k', array[g, null], 's', '"{'), decode('00ff10', 'hex'), array[1, null, 9007199254740993],
    array['a,b', 'c"d', '\\', '', null, '{x}'], array['{"a": "}"}'::jsonb, '[1]'], array[[1, 2], [3, 4]], int4range(g, g + 5),
    (array['sad', 'happy'])[1 + g % 2]::mood
  from generate_series(1, 2500) g
  union all select 0, null, null, 'NaN', null, null, 'infinity', '-infinity', null, null, null, null, null, null, '{}', null, null, null, null`;

describe('between databases', () => {
  test('every type of Postgres arrives as it left, in chunks', async () => {
    await admin.query("create type mood as enum ('sad', 'happy')");
    await admin.query(EVERYTHING);
    await admin.query('create table copy_of_everything (like everything including all)');
    await admin.query(ROWS);
    const outcome = await move(from('select * from everything order by id'), into('copy_of_everything'), {
      chunk_size: 1000,
    });
    expect(outcome).toMatchObject({ status: 'ok', result: { row_count: 2501, chunks: 3, status: 'success' } });
    const differences = 'select count(*)::int as n from (table everything except table copy_of_everything) x';
    expect(await rowsOf(differences)).toEqual([{ n: 0 }]);
    expect(await rowsOf('select count(*)::int as n from copy_of_everything')).toEqual([{ n: 2501 }]);
  });

  test.each(['jsonl', 'json', 'csv'] as const)('through an artifact of %s, nothing is lost', async (format) => {
    const columns = 'id, big, num, ok, t, d, ts, tz, u, b';
    await admin.query('truncate copy_of_everything');
    const out = await move(from(`select ${columns} from everything`), {
      kind: 'artifact',
      format,
      artifact_kind: 'export',
    });
    const { artifact } = out.result as { artifact: { kind: string } };
    expect(artifact.kind).toBe('export');
    expect(out.meta?.['artifacts']).toEqual([artifact]);
    const back = await move({ kind: 'artifact', ref: artifact, format }, into('copy_of_everything'), {
      chunk_size: 700,
    });
    expect(back).toMatchObject({ status: 'ok', result: { row_count: 2501 } });
    const differences = `select count(*)::int as n from (select ${columns} from everything except select ${columns} from copy_of_everything) x`;
    expect(await rowsOf(differences)).toEqual([{ n: 0 }]);
  });

  test('to DuckDB and back', async () => {
    const create =
      'create table t (id int, big bigint, num decimal(38, 10), t varchar, ts timestamp, tz timestamptz, b blob, j json, ok boolean)';
    await duck.call({ database: 'a.duckdb', command: create }, callContext());
    const columns = 'id, big, num, t, ts, tz, b, j, ok';
    const there = await move(from(`select ${columns} from everything where id > 0`), {
      kind: 'duckdb',
      database: 'a.duckdb',
      table: 't',
    });
    expect(there).toMatchObject({ status: 'ok', result: { row_count: 2500 } });
    await admin.query('truncate copy_of_everything');
    const back = await move(
      { kind: 'duckdb', database: 'a.duckdb', command: `select ${columns} from t where id > $1`, params: [0] },
      into('copy_of_everything'),
    );
    expect(back).toMatchObject({ status: 'ok', result: { row_count: 2500 } });
    const differences = `select count(*)::int as n from (select ${columns} from everything where id > 0 except select ${columns} from copy_of_everything) x`;
    expect(await rowsOf(differences)).toEqual([{ n: 0 }]);
  });
});

describe('modes', () => {
  const TWO = "select * from (values (1, 'one'), (2, 'two')) v(id, name)";
  const names = () => rowsOf('select id, name from names order by id');

  test('append adds, replace replaces, upsert does either by key', async () => {
    await admin.query('create table names (id int primary key, name text, note text)');
    await move(from(TWO), into('names'));
    await admin.query("update names set note = 'kept'");
    await move(from("select 2 as id, 'zwei' as name union all select 3, 'drei'"), into('names'), { mode: 'upsert' });
    expect(await rowsOf('select * from names order by id')).toEqual([
      { id: 1, name: 'one', note: 'kept' },
      { id: 2, name: 'zwei', note: 'kept' },
      { id: 3, name: 'drei', note: null },
    ]);
    await move(from("select 9 as id, 'nine' as name"), into('public.names'), { mode: 'replace' });
    expect(await names()).toEqual([{ id: 9, name: 'nine' }]);
  });

  test('of two rows with one key in a chunk, the last wins', async () => {
    await admin.query('truncate names');
    const outcome = await move(from("select * from (values (1, 'a'), (1, 'b')) v(id, name)"), into('names'), {
      mode: 'upsert',
    });
    expect(outcome).toMatchObject({ status: 'ok', result: { row_count: 1 } });
    expect(await names()).toEqual([{ id: 1, name: 'b' }]);
  });

  test('upsert works in DuckDB, where the keys have to be said', async () => {
    await duck.call(
      {
        database: 'm.duckdb',
        command: "create table n (id int primary key, name varchar); insert into n values (1, 'old')",
      },
      callContext(),
    );
    const target = { kind: 'duckdb', database: 'm.duckdb', table: 'n' };
    expect(errorOf(await move(from(TWO), target, { mode: 'upsert' })).code).toBe('INVALID_STEP_SCHEMA');
    expect((await move(from(TWO), { ...target, keys: ['id'] }, { mode: 'upsert' })).status).toBe('ok');
    const read = await duck.call({ database: 'm.duckdb', command: 'from n order by id' }, callContext());
    expect((read.result as { rows: unknown[] }).rows).toEqual([
      { id: 1, name: 'one' },
      { id: 2, name: 'two' },
    ]);
  });

  test('a failure in the last chunk leaves the target as it was', async () => {
    await admin.query("truncate names; insert into names values (7, 'seven')");
    const source = from('select g as id, (1 / (100 - g))::text as name from generate_series(1, 100) g');
    const outcome = await move(source, into('names'), { mode: 'replace', chunk_size: 10 });
    expect(errorOf(outcome)).toMatchObject({ kind: 'postgres', code: '22012' });
    expect(errorOf(outcome).unknown).toBeUndefined();
    expect(await names()).toEqual([{ id: 7, name: 'seven' }]);
  });

  test('a transfer with a key happens once, and can be looked up', async () => {
    await admin.query('truncate names');
    const context = { idempotencyKey: 'load-1' };
    const first = await move(from(TWO), into('names'), {}, context);
    const again = await move(from(TWO), into('names'), {}, context);
    expect(first).toMatchObject({ status: 'ok', meta: { exact: true } });
    expect(again).toMatchObject({ status: 'ok', result: { row_count: 2 }, meta: { replayed: true } });
    expect(await names()).toHaveLength(2);
    const asked = callContext({ secrets: { main: database.url }, ...context });
    const input = { source: from(TWO), target: into('names') };
    expect(await tool.reconcile(input, asked)).toMatchObject({ found: 'happened', result: { row_count: 2 } });
    expect(await tool.reconcile(input, { ...asked, idempotencyKey: 'load-2' })).toEqual({ found: 'absent' });
  });
});

describe('failures', () => {
  test.each([
    ['a table that is not there', into('nowhere'), 'INVALID_STEP_SCHEMA'],
    ['a column that is not there', into('names'), 'INVALID_STEP_SCHEMA'],
  ])('%s is said by name', async (_name, target, code) => {
    expect(errorOf(await move(from('select 1 as nope'), target))).toMatchObject({ code, retryable: false });
  });

  test.each([
    ['delete from names returning *'],
    ['select 1; select 2'],
    ['with x as (delete from names returning *) select * from x'],
  ])('a source that is not one query is refused: %s', async (command) => {
    expect(errorOf(await move(from(command), into('names')))).toMatchObject({
      kind: 'input',
      code: 'INVALID_STEP_SCHEMA',
    });
  });

  test('a source that writes by a function is refused by the database', async () => {
    await admin.query(
      'create function sneaky() returns int language sql as $$ insert into names (id) values (100) returning id $$',
    );
    expect(errorOf(await move(from('select sneaky() as id'), { kind: 'artifact' })).code).toBe('READ_ONLY_VIOLATION');
    expect(await rowsOf('select 1 from names where id = 100')).toEqual([]);
  });

  test.each([
    ['jsonl', '{"id": 1}\nnot json\n'],
    ['jsonl', '{"id": 1}\n[1]\n'],
    ['jsonl', '{"id": 1}\n{"id": 2}\n{"id": 3}\n{"id": 4}\n{"id": 5}\n{"id": 6, "name": "x"}\n'],
    ['json', '{"id": 1}'],
    ['csv', 'id,name\n1\n'],
    ['csv', 'id,id\n1,2\n'],
    ['csv', 'id,name\n1,"open\n'],
    ['csv', 'id,name\n1,"x"y\n'],
  ])('an artifact that is no %s is refused', async (format, text) => {
    await admin.query('truncate names');
    const outcome = await move({ kind: 'artifact', ref: await stored(text), format }, into('names'), { chunk_size: 5 });
    expect(errorOf(outcome)).toMatchObject({ kind: 'input', code: 'INVALID_STEP_SCHEMA' });
  });

  test('a missing artifact and a failing store are errors of the artifact', async () => {
    expect(errorOf(await move({ kind: 'artifact', ref: 'memory:none' }, into('names')))).toMatchObject({
      kind: 'artifact',
      code: 'ARTIFACT_NOT_FOUND',
    });
    const full = { ...artifacts, put: () => Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' })) };
    expect(errorOf(await move(from('select 1 as id'), { kind: 'artifact' }, {}, { artifacts: full }))).toMatchObject({
      kind: 'artifact',
      code: 'ENOSPC',
      retryable: true,
    });
  });

  test('an abort ends both sides, and nothing has happened', async () => {
    await admin.query('truncate names');
    const controller = new AbortController();
    const source = from('select g as id, pg_sleep(0.01)::text as name from generate_series(1, 10000) g');
    const moving = move(
      source,
      into('names'),
      { chunk_size: 5 },
      { signal: controller.signal, idempotencyKey: 'slow' },
    );
    setTimeout(() => controller.abort(new AppError('CANCELLED', 'stop')), 300);
    expect(errorOf(await moving)).toMatchObject({ kind: 'cancelled', code: 'CANCELLED' });
    expect(await rowsOf('select 1 from names')).toEqual([]);
    const busy =
      "select 1 from pg_stat_activity where datname = current_database() and application_name = 'runledger' and state <> 'idle'";
    for (let i = 0; (await rowsOf(busy)).length > 0; i++) {
      if (i > 100) throw new Error('a connection is still at work');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });
});

describe('CSV', () => {
  test('empty text and nothing stay apart', async () => {
    const outcome = await move(from("select null::text as a, '' as b, 'x' as c"), { kind: 'artifact', format: 'csv' });
    expect(await textOf(outcome)).toBe('a,b,c\r\n,"",x\r\n');
  });

  test('any records come back as they were written', () => {
    const field = fc.oneof(fc.constant(null), fc.string(), fc.constantFrom('', '"', 'a,b', 'a\r\nb', '\n', '\ufeff'));
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 4 }),
        fc.array(fc.array(field, { minLength: 4, maxLength: 4 }), { minLength: 1 }),
        (width, records) => {
          const cut = records.map((record) => record.slice(0, width));
          expect([...parseCsv(cut.map(csvRecord).join(''))]).toEqual(cut);
        },
      ),
    );
  });
});

toolSuite('transfer', {
  open: () => new TransferTool({ folder }),
  context: () => ({ secret: async () => database.url, artifacts }),
  cases: [
    {
      title: 'a transfer',
      input: { source: from("select 'hidden-1' as a"), target: { kind: 'artifact', format: 'csv' }, chunk_size: 10 },
      effect: 'write',
      hidden: ['hidden'],
    },
    {
      title: 'a failing one',
      input: { source: from('select 1 / 0 as a'), target: { kind: 'artifact' } },
      effect: 'write',
      fails: 'postgres',
    },
  ],
  slow: { source: from('select pg_sleep(60)::text as a'), target: { kind: 'artifact' } },
});
