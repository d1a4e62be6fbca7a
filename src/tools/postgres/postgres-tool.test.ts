import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { callContext } from '../../testing/call-context.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import {
  admin,
  countOrders,
  database,
  errorOf,
  INSERT,
  isSleeping,
  postgresTool,
  run,
  untilSleeping,
  useOrders,
} from './orders.fixture.ts';
import { PostgresTool } from './postgres-tool.ts';

useOrders();

describe('results', () => {
  test('rows, columns and counts have the documented shape', async () => {
    const outcome = await run("select 1 as a, 'x' as b union all select 2, 'y' order by 1");
    expect(outcome).toEqual({
      status: 'ok',
      result: {
        rows: [
          { a: 1, b: 'x' },
          { a: 2, b: 'y' },
        ],
        columns: ['a', 'b'],
        row_count: 2,
        status: 'success',
      },
    });
  });

  test('several statements run in one transaction, each under its number and the last at the top', async () => {
    const command = "insert into orders (name) values ('a'); update orders set name = 'b'; select name from orders";
    const outcome = await run(command);
    expect(outcome.result).toEqual({
      rows: [{ name: 'b' }],
      columns: ['name'],
      row_count: 1,
      status: 'success',
      command_0: { rows: [], columns: [], row_count: 1, status: 'success' },
      command_1: { rows: [], columns: [], row_count: 1, status: 'success' },
      command_2: { rows: [{ name: 'b' }], columns: ['name'], row_count: 1, status: 'success' },
    });
  });

  test('when one statement fails, none has happened', async () => {
    const outcome = await run(["insert into orders (name) values ('a')", 'select 1 / 0']);
    expect(errorOf(outcome)).toMatchObject({ kind: 'postgres', code: '22012', retryable: false });
    expect(errorOf(outcome).unknown).toBeUndefined();
    expect(outcome.pg).toEqual({ code: '22012' });
    expect(await countOrders()).toBe(0);
  });

  test('parameters are values and never text', async () => {
    const evil = "'); drop table orders; --";
    const outcome = await run('select $1::text as a; select $2::jsonb as b, $1::text as c', [evil, { x: [1] }]);
    expect(outcome.result).toMatchObject({
      command_0: { rows: [{ a: evil }] },
      command_1: { rows: [{ b: { x: [1] }, c: evil }] },
    });
    const named = await run('select :name::text as n, :ids::int[] as i', { name: 'x', ids: [1, 2] });
    expect(named.result).toMatchObject({ rows: [{ n: 'x', i: [1, 2] }] });
  });

  test('a text that the server reads as two statements is refused by it', async () => {
    // Without standard strings the server would see the quote end at another place than the splitter does.
    const command = ["select '\\'; delete from orders; --'", "insert into orders (name) values ('x')"];
    await run(command);
    expect(await countOrders()).toBeLessThanOrEqual(1);
    const tricky = await run("set standard_conforming_strings = off; select '\\'; delete from orders; --'");
    expect(errorOf(tricky).code).toBe('42601');
  });

  test('a column named __proto__ is a column', async () => {
    const outcome = await run('select 1 as "__proto__", 2 as b');
    expect(JSON.stringify((outcome.result as { rows: unknown[] }).rows)).toBe('[{"__proto__":1,"b":2}]');
  });

  test('more rows than the limit are not kept, and the statement is ended', async () => {
    const tool = postgresTool({ maxRows: 1000 });
    const outcome = await run('select g, repeat($1, 100) as t from generate_series(1, 100000000) g', ['x'], { tool });
    expect(errorOf(outcome)).toMatchObject({ code: 'RESPONSE_TOO_LARGE', retryable: false });
    expect((await run('select 1 as a', undefined, { tool })).status).toBe('ok');
  });

  test.each([
    ['copy orders to stdout', 'INVALID_STEP_SCHEMA'],
    ["copy orders from program 'id'", 'INVALID_STEP_SCHEMA'],
    ['begin; select 1', 'INVALID_STEP_SCHEMA'],
    ['-- nothing', 'INVALID_STEP_SCHEMA'],
    ["select 'open", 'INVALID_STEP_SCHEMA'],
    ['select $1', 'INVALID_STEP_SCHEMA'],
  ])('%s is refused as input', async (command, code) => {
    expect(errorOf(await run(command))).toMatchObject({ kind: 'input', code });
  });

  test.each([
    ['selec 1', '42601', false],
    ['select * from nowhere', '42P01', false],
    ["insert into orders (name) values ('a'), ('a')", '23505', false],
    ['vacuum', '25001', false],
    ["do $$ begin raise exception using errcode = '40001'; end $$", '40001', true],
    ["do $$ begin raise exception using errcode = '40P01'; end $$", '40P01', true],
    ["do $$ begin raise exception using errcode = '55P03'; end $$", '55P03', true],
    ["do $$ begin raise exception using errcode = '53300'; end $$", '53300', true],
    ["do $$ begin raise exception using errcode = '08P01'; end $$", '08P01', false],
  ])('%s fails with its SQLSTATE', async (command, code, retryable) => {
    const outcome = await run(command);
    expect(errorOf(outcome)).toMatchObject({ kind: 'postgres', code, retryable });
    expect(outcome.pg).toEqual({ code });
    expect(errorOf(outcome).unknown).toBeUndefined();
  });

  test('a COMMIT inside of code does not get through', async () => {
    await admin.query(
      'create or replace procedure sneak() language plpgsql as $$ begin insert into orders (name) values (1); commit; end $$',
    );
    expect(errorOf(await run('call sneak()')).code).toBe('2D000');
    expect(await countOrders()).toBe(0);
  });
});

describe('reads', () => {
  test.each([
    ['select 1', 'read'],
    ['(select 1) union (select 2)', 'read'],
    ['with a as (select 1) select * from a', 'read'],
    ['show server_version', 'read'],
    ['explain select 1', 'read'],
    ['values (1)', 'read'],
    ['table orders', 'read'],
    ['select 1; insert into orders (name) values (1)', 'write'],
    ['with a as (delete from orders returning 1) select * from a', 'write'],
    ['explain analyze delete from orders', 'write'],
    ['set search_path = x', 'write'],
    ['do $$ begin end $$', 'write'],
    ["select 'open", 'write'],
  ])('%s is a %s', (command, effect) => {
    expect(postgresTool().classify({ auth: 'main', command })).toBe(effect);
  });

  test.each([
    ['a function that writes', 'select add_order()'],
    ['select into', 'select 1 as a into fresh'],
    ['a sequence', "select nextval('orders_id_seq')"],
    ['a lock', 'select * from orders for update'],
  ])('%s in a read is refused by the database and told how to go on', async (_name, command) => {
    await admin.query(
      "create or replace function add_order() returns int language sql as $$ insert into orders (name) values ('f') returning id $$",
    );
    const outcome = await run(command);
    expect(errorOf(outcome)).toMatchObject({ kind: 'postgres', code: 'READ_ONLY_VIOLATION', retryable: false });
    expect(errorOf(outcome).message).toContain('effect: {class: write}');
    expect(outcome.pg).toEqual({ code: '25006' });
    expect(await countOrders()).toBe(0);
  });

  test('a read cannot make its transaction writable', async () => {
    const outcome = await run("select set_config('transaction_read_only', 'off', false); select add_order()");
    expect(outcome.status).toBe('error');
    expect(await countOrders()).toBe(0);
  });

  test('the same statement passes as a write where it was let through as one', async () => {
    const outcome = await run('select add_order() as id', undefined, { effectClass: 'write', idempotencyKey: 'k' });
    expect(outcome).toMatchObject({ status: 'ok', result: { rows: [{ id: 1 }] } });
    expect(await countOrders()).toBe(1);
  });

  test('a write that was let through as a read does not happen', async () => {
    expect(errorOf(await run(INSERT, ['a'], { effectClass: 'read' })).code).toBe('READ_ONLY_VIOLATION');
    expect(await countOrders()).toBe(0);
  });
});

describe('time and cancellation', () => {
  test('an abort ends the query on the server, and the write has not happened', async () => {
    const controller = new AbortController();
    const command = "insert into orders (name) select 'a' from pg_sleep(20)";
    const running = run(command, undefined, { signal: controller.signal, idempotencyKey: 'k1' });
    await untilSleeping();
    controller.abort(new AppError('CANCELLED', 'stop'));
    const outcome = await running;
    expect(errorOf(outcome)).toMatchObject({ kind: 'cancelled', code: 'CANCELLED' });
    expect(errorOf(outcome).unknown).toBeUndefined();
    expect(await isSleeping()).toBe(false);
    expect(await countOrders()).toBe(0);
  });

  test("the time limit is also the server's, for a worker that cannot ask any more", async () => {
    const outcome = await run('select pg_sleep(20)', undefined, { timeoutMs: 100 });
    expect(errorOf(outcome)).toMatchObject({ kind: 'timeout', code: 'TASK_TIMEOUT', retryable: true });
    expect(outcome.pg).toEqual({ code: '57014' });
  });

  test('an abort while waiting for a connection does not wait for one', async () => {
    const tool = postgresTool({ maxConnections: 1 });
    const controller = new AbortController();
    const first = run('select pg_sleep(20)', undefined, { tool, signal: controller.signal });
    await untilSleeping();
    const second = await run('select 1', undefined, { tool, signal: AbortSignal.timeout(50) });
    expect(errorOf(second)).toMatchObject({ kind: 'timeout' });
    controller.abort();
    await first;
    expect((await run('select 1', undefined, { tool })).status).toBe('ok');
  });
});

describe('credentials', () => {
  test('parts work as well as a URL, and so does a keychain entry rendered into the field', async () => {
    const url = new URL(database.url);
    const parts = {
      host: url.searchParams.get('host') ?? url.hostname,
      port: url.port,
      user: url.username,
      password: decodeURIComponent(url.password),
      database: url.pathname.slice(1),
    };
    const tool = postgresTool();
    for (const auth of ['main', { credential: 'main' }, parts, { url: database.url }]) {
      const outcome = await tool.call({ auth, command: 'select 1' }, callContext({ secrets: { main: parts } }));
      expect(outcome.status).toBe('ok');
    }
  });

  test.each([
    [5],
    [{}],
    ['mysql://a:b@c/d'],
    ['postgres://host-without-user/x'],
    [{ host: 'h', user: 'u' }],
    [{ host: 'h', user: 'u', database: 'd', port: 'x' }],
  ])('a secret like %j is refused without being shown', async (secret) => {
    const outcome = await postgresTool().call(
      { auth: 'main', command: 'select 1' },
      callContext({ secrets: { main: secret } }),
    );
    expect(errorOf(outcome)).toMatchObject({ kind: 'postgres', code: 'SECRET_INVALID' });
    expect(errorOf(outcome).message).not.toContain('a:b');
  });

  test('what the credential leaves out is not filled from the environment of the worker', async () => {
    process.env['PGPASSWORD'] = 'of-the-worker';
    process.env['PGDATABASE'] = 'of-the-worker';
    try {
      const seen: string[] = [];
      const server = createServer((socket) => {
        socket.once('data', () => {
          socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]));
          socket.once('data', (chunk) => {
            seen.push(chunk.toString());
            socket.destroy();
          });
        });
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as { port: number };
      await run('select 1', undefined, { url: `postgres://u@127.0.0.1:${port}/d` });
      server.close();
      expect(seen.join('')).not.toContain('of-the-worker');
      expect(seen).toHaveLength(1);
    } finally {
      delete process.env['PGPASSWORD'];
      delete process.env['PGDATABASE'];
    }
  });

  test('closing lets go of every connection', async () => {
    const tool = postgresTool();
    await Promise.all([1, 2, 3].map(() => run('select 1', undefined, { tool })));
    const open = () =>
      admin.query(
        "select 1 from pg_stat_activity where application_name = 'runledger' and datname = current_database()",
      );
    expect((await open()).rowCount).toBeGreaterThan(0);
    await tool.close();
    for (let i = 0; (await open()).rowCount !== 0; i++) {
      if (i > 100) throw new Error('connections are still open');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });

  test('one pool serves one credential, within its size', async () => {
    const tool = postgresTool({ maxConnections: 2 });
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, () => run('select pg_backend_pid() as pid from pg_sleep(0.02)', undefined, { tool })),
    );
    const pids = new Set(outcomes.map((outcome) => (outcome.result as { rows: { pid: number }[] }).rows[0]?.pid));
    expect(pids.size).toBeLessThanOrEqual(2);
  });
});

toolSuite('postgres', {
  open: () => new PostgresTool(),
  context: () => ({
    secret: async (name) => {
      if (name !== 'main') throw new AppError('SECRET_NOT_FOUND', 'there is no such secret');
      return database.url;
    },
  }),
  cases: [
    { title: 'a query', input: { auth: 'main', command: 'select 1', pool: { max: 3 } }, effect: 'read' },
    {
      title: 'a write',
      input: {
        auth: 'main',
        command: "create table if not exists t (a text); insert into t values (:a), ('hidden-1')",
        params: { a: 'hidden-2' },
      },
      effect: 'write',
      hidden: ['hidden'],
    },
    { title: 'an error', input: { auth: 'main', command: 'select 1 / 0' }, effect: 'read', fails: 'postgres' },
    { title: 'an unknown secret', input: { auth: 'none', command: 'select 1' }, effect: 'read', fails: 'postgres' },
  ],
  slow: { auth: 'main', command: 'select pg_sleep(60)' },
});
