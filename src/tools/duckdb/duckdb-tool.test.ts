import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { callContext } from '../../testing/call-context.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import type { CallContext, ToolOutcome } from '../tool.ts';
import { DuckDbTool } from './duckdb-tool.ts';

let folder: string;
let tool: DuckDbTool;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'runledger-duckdb-'));
  tool = new DuckDbTool({ folder });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const run = (command: string | string[], fields: Record<string, unknown> = {}, context: Partial<CallContext> = {}) =>
  tool.call({ command, ...fields }, callContext(context));
const errorOf = (outcome: ToolOutcome) => {
  if (outcome.status !== 'error') throw new Error(`expected an error, got ${JSON.stringify(outcome.result)}`);
  return outcome.error;
};
const rowsOf = (outcome: ToolOutcome): Record<string, unknown>[] => {
  if (outcome.status === 'error') throw new Error(outcome.error.message);
  return (outcome.result as { rows: Record<string, unknown>[] }).rows;
};

describe('results', () => {
  test('rows have the shape of postgres, and are data too', async () => {
    const outcome = await run("select 1 as a, 'x' as b");
    const rows = [{ a: 1, b: 'x' }];
    expect(outcome).toEqual({
      status: 'ok',
      result: { rows, columns: ['a', 'b'], row_count: 1, status: 'success', data: rows },
    });
  });

  test('several statements see each other in memory, each under its number and the last at the top', async () => {
    const outcome = await run('create table t (a int); insert into t values (1), (2); from t order by a');
    expect(outcome.result).toMatchObject({
      rows: [{ a: 1 }, { a: 2 }],
      command_0: { rows: [], columns: [], row_count: 0 },
      command_1: { rows: [], columns: [], row_count: 2 },
      command_2: { rows: [{ a: 1 }, { a: 2 }], row_count: 2 },
    });
    expect((await run('from t')).status).toBe('error');
  });

  test.each([
    ['9007199254740991::bigint', 9007199254740991],
    ['9007199254740993::bigint', '9007199254740993'],
    ['170141183460469231731687303715884105727::hugeint', '170141183460469231731687303715884105727'],
    ['12.50::decimal(10, 2)', 12.5],
    ['0.1234567890123456789::decimal(30, 19)', '0.1234567890123456789'],
    ["'NaN'::double", 'NaN'],
    ['1.5::float', 1.5],
    ['true', true],
    ["date '2024-02-29'", '2024-02-29'],
    ["timestamp '2024-02-29 10:20:30.123456'", '2024-02-29T10:20:30.123456'],
    ["timestamptz '2024-02-29 10:20:30.5+05:30'", '2024-02-29T04:50:30.5Z'],
    ["time '10:20:30'", '10:20:30'],
    ['\'{"a": [1, null]}\'::json', { a: [1, null] }],
    ["'\\x00\\xFF\\x10'::blob", 'AP8Q'],
    ['[1, 2, null]', [1, 2, null]],
    ["{'a': 1::bigint, 'b': [date '2024-01-01']}", { a: 1, b: ['2024-01-01'] }],
    ["map {'k': 1}", { k: 1 }],
    ['map {1: 2}', [{ key: 1, value: 2 }]],
    ["'6a0f7c4e-4c4e-4f62-9d6e-0d0c7e6b7a11'::uuid", '6a0f7c4e-4c4e-4f62-9d6e-0d0c7e6b7a11'],
    ["'a'::enum('a', 'b')", 'a'],
    ['null', null],
  ])('%s is %j', async (expression, expected) => {
    expect(rowsOf(await run(`select ${expression} as value`))).toEqual([{ value: expected }]);
  });

  test('parameters are values and never text', async () => {
    const evil = "'); drop table t; --";
    const command = 'select $1 as a, $2::int as b, $3::varchar[] as c, $4::json as d';
    expect(rowsOf(await run(command, { params: [evil, 7, ['x', 'y'], { k: [1] }] }))).toEqual([
      { a: evil, b: 7, c: ['x', 'y'], d: { k: [1] } },
    ]);
    expect(rowsOf(await run('select :n::bigint as n', { params: { n: 5_000_000_000 } }))).toEqual([
      { n: 5_000_000_000 },
    ]);
  });

  test('more rows than the limit are refused', async () => {
    const small = new DuckDbTool({ maxRows: 5000 });
    const outcome = await small.call({ command: 'from range(10000000)' }, callContext());
    expect(errorOf(outcome)).toMatchObject({ kind: 'duckdb', code: 'RESPONSE_TOO_LARGE' });
  });

  test.each([
    ['selec 1', 'duckdb', 'PARSER'],
    ['select nope', 'duckdb', 'BINDER'],
    ['from nowhere', 'duckdb', 'CATALOG'],
    ["select 'x'::int", 'duckdb', 'CONVERSION'],
    ['begin; select 1', 'input', 'INVALID_STEP_SCHEMA'],
    ['select $1', 'input', 'INVALID_STEP_SCHEMA'],
  ])('%s fails with a code', async (command, kind, code) => {
    expect(errorOf(await run(command))).toMatchObject({ kind, code, retryable: false });
  });
});

describe('files', () => {
  test('a file keeps what was committed, and nothing of what failed', async () => {
    await run('create table t (a int); insert into t values (1)', { database: 'a.duckdb' });
    expect((await run('insert into t values (2); select 1 / nope', { database: 'a.duckdb' })).status).toBe('error');
    expect(rowsOf(await run('from t', { database: join(folder, 'a.duckdb') }))).toEqual([{ a: 1 }]);
  });

  test.each([
    ['select 1', 'read'],
    ['from t', 'read'],
    ['with a as (select 1) from a', 'read'],
    ['with a as (select 1) insert into t from a', 'write'],
    ['insert into t values (1)', 'write'],
    ["copy t to 'x.csv'", 'write'],
    ["select 'open", 'write'],
  ])('%s on a file is a %s', (command, effect) => {
    expect(tool.classify({ database: 'a.duckdb', command })).toBe(effect);
  });

  test.each([
    ['create table t (a int); insert into t values (1); from t', 'read'],
    ["create table t as from 'x.csv'", 'read'],
    ["copy (select 1) to 'x.csv'", 'write'],
    ["attach 'x.duckdb'", 'write'],
    ['create persistent secret s (type s3)', 'write'],
    ['install httpfs', 'write'],
    ["explain analyze copy (select 1) to 'x.csv'", 'write'],
  ])('%s in memory is a %s', (command, effect) => {
    expect(tool.classify({ command })).toBe(effect);
  });

  test('a write that was let through as a read does not happen', async () => {
    await run('create or replace table r (a int)', { database: 'b.duckdb' });
    const outcome = await run('insert into r values (1)', { database: 'b.duckdb' }, { effectClass: 'read' });
    expect(errorOf(outcome)).toMatchObject({ code: 'READ_ONLY_VIOLATION', retryable: false });
    expect(rowsOf(await run('from r', { database: 'b.duckdb' }))).toEqual([]);
  });

  test('calls at once to one file share it, and let go of it when they end', async () => {
    await run('create or replace table c (a int)', { database: 'c.duckdb' });
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, (_, i) => run('insert into c values ($1)', { database: 'c.duckdb', params: [i] })),
    );
    expect(outcomes.every(({ status }) => status === 'ok')).toBe(true);
    const script = `import { DuckDBInstance } from '@duckdb/node-api';
      const connection = await (await DuckDBInstance.create(process.argv[1])).connect();
      console.log(String((await (await connection.run('select count(*) from c')).getRows())[0][0]));`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script, join(folder, 'c.duckdb')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let printed = '';
    child.stdout.on('data', (chunk) => {
      printed += chunk;
    });
    expect((await once(child, 'exit'))[0]).toBe(0);
    expect(printed.trim()).toBe('8');
  });

  test('a file that another process holds may be tried again', async () => {
    const script = `import { DuckDBInstance } from '@duckdb/node-api';
      await (await DuckDBInstance.create(process.argv[1])).connect();
      console.log('open'); setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script, join(folder, 'held.duckdb')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    expect(errorOf(await run('select 1', { database: 'held.duckdb' }))).toMatchObject({ code: 'IO', retryable: true });
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect((await run('select 1', { database: 'held.duckdb' })).status).toBe('ok');
  });

  test('a file that was written before a later statement failed leaves the outcome unknown', async () => {
    const out = join(folder, 'out.csv');
    const outcome = await run([`copy (select 1 as a) to '${out}'`, "select error('no')"]);
    expect(errorOf(outcome)).toMatchObject({ kind: 'duckdb', unknown: true });
    expect(existsSync(out) && (await readFile(out, 'utf8'))).toContain('1');
  });
});

describe('surroundings', () => {
  test('without the package the error says how to install it', async () => {
    vi.doMock('@duckdb/node-api', () => {
      throw new Error("Cannot find package '@duckdb/node-api'");
    });
    vi.resetModules();
    const { DuckDbTool: Fresh } = await import('./duckdb-tool.ts');
    const outcome = await new Fresh().call({ command: 'select 1' }, callContext());
    vi.doUnmock('@duckdb/node-api');
    vi.resetModules();
    expect(errorOf(outcome)).toMatchObject({ kind: 'duckdb', code: 'DEPENDENCY_MISSING', retryable: false });
    expect(errorOf(outcome).message).toContain('npm install @duckdb/node-api');
  });

  test('settings of the configuration hold', async () => {
    const closed = new DuckDbTool({ settings: { enable_external_access: 'false' } });
    const outcome = await closed.call({ command: "from read_csv('/etc/passwd')" }, callContext());
    expect(errorOf(outcome).code).toBe('PERMISSION');
  });

  test('an abort ends the query, and the process goes on', async () => {
    const controller = new AbortController();
    const slow = 'select count(*) from range(100000000) a, range(100000) b where (a.range * b.range) % 7 = 3';
    const running = run(slow, {}, { signal: controller.signal });
    setTimeout(() => controller.abort(new AppError('CANCELLED', 'stop')), 100);
    expect(errorOf(await running)).toMatchObject({ kind: 'cancelled', code: 'CANCELLED' });
    expect((await run('select 1')).status).toBe('ok');
  });
});

toolSuite('duckdb', {
  open: () => new DuckDbTool({ folder }),
  cases: [
    { title: 'a query', input: { command: 'select $1 as a', params: [1] }, effect: 'read' },
    {
      title: 'a write',
      input: {
        database: 'suite.duckdb',
        command: "create table if not exists t (a varchar); insert into t values (:a), ('hidden-1')",
        params: { a: 'hidden-2' },
      },
      effect: 'write',
      hidden: ['hidden'],
    },
    { title: 'an error', input: { command: 'select nope' }, effect: 'read', fails: 'duckdb' },
  ],
  slow: { command: 'select count(*) from range(1000000000) a, range(1000000) b where (a.range * b.range) % 7 = 3' },
});
