import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import { AppError } from '../../contracts/errors.ts';
import { canonicalJson } from '../../lib/canonical-json.ts';
import { callContext } from '../../testing/call-context.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import type { CallContext, ToolOutcome } from '../tool.ts';
import { PostgresTool, type PostgresToolOptions } from './postgres-tool.ts';

let database: TestDatabase;
let admin: pg.Client;
const tools: PostgresTool[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ empty: true });
  admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
  await admin.query('create table orders (id serial primary key, name text unique, data jsonb)');
});
beforeEach(async () => {
  await admin.query('truncate orders restart identity');
  await admin.query('drop table if exists runledger_effects');
});
afterEach(async () => {
  for (const tool of tools.splice(0)) await tool.close();
});
afterAll(async () => {
  await admin.end();
  await database.drop();
});

function postgresTool(options: PostgresToolOptions = {}): PostgresTool {
  const tool = new PostgresTool(options);
  tools.push(tool);
  return tool;
}
type Options = Partial<CallContext> & { readonly tool?: PostgresTool; readonly url?: string };
function run(command: string | string[], params?: unknown, options: Options = {}): Promise<ToolOutcome> {
  const { tool = postgresTool(), url = database.url, ...rest } = options;
  const input = { auth: 'main', command, ...(params === undefined ? {} : { params }) };
  return tool.call(input, callContext({ secrets: { main: url }, ...rest }));
}
const errorOf = (outcome: ToolOutcome) => {
  if (outcome.status !== 'error') throw new Error(`expected an error, got ${JSON.stringify(outcome.result)}`);
  return outcome.error;
};
const countOrders = async (): Promise<number> => (await admin.query('select count(*)::int as n from orders')).rows[0].n;
const INSERT = 'insert into orders (name) values ($1) returning id, name';

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

describe('exact writes', () => {
  test('a second call with the same key returns the first result and writes nothing', async () => {
    const first = await run(INSERT, ['a'], { idempotencyKey: 'k1' });
    const second = await run(INSERT, ['b'], { idempotencyKey: 'k1' });
    expect(first).toMatchObject({ status: 'ok', meta: { exact: true } });
    expect(second).toMatchObject({ status: 'ok', meta: { exact: true, replayed: true } });
    expect(second.result).toEqual(first.result);
    expect(await countOrders()).toBe(1);
  });

  test('another key, and the same key of another tenant, are other effects', async () => {
    const place = { ...callContext().place, tenantId: 'other' };
    await run(INSERT, ['a'], { idempotencyKey: 'k1' });
    await run(INSERT, ['b'], { idempotencyKey: 'k2' });
    await run(INSERT, ['c'], { idempotencyKey: 'k1', place });
    expect(await countOrders()).toBe(3);
  });

  test('a write that failed left no key', async () => {
    await run(INSERT, ['a'], { idempotencyKey: 'k1' });
    expect(errorOf(await run(INSERT, ['a'], { idempotencyKey: 'k2' })).code).toBe('23505');
    const context = callContext({ secrets: { main: database.url }, idempotencyKey: 'k2' });
    expect(await postgresTool().reconcile({ auth: 'main', command: INSERT, params: ['a'] }, context)).toEqual({
      found: 'absent',
    });
    expect((await run(INSERT, ['b'], { idempotencyKey: 'k2' })).status).toBe('ok');
  });

  test('twenty calls at once with one key write once and all get its result', async () => {
    const tool = postgresTool({ maxConnections: 20 });
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, i) => run(INSERT, [`n${i}`], { tool, idempotencyKey: 'k1' })),
    );
    expect(new Set(outcomes.map((outcome) => canonicalJson(outcome.result))).size).toBe(1);
    expect(outcomes.every(({ status }) => status === 'ok')).toBe(true);
    expect(outcomes.filter(({ meta }) => !meta?.['replayed'])).toHaveLength(1);
    expect(await countOrders()).toBe(1);
  });

  test('a statement that changes the search path or the session does not lose the key, and leaves no trace', async () => {
    const tool = postgresTool({ maxConnections: 1 });
    const command =
      "create schema if not exists elsewhere; set search_path = elsewhere; set my.tenant = 'acme'; insert into public.orders (name) values ('a')";
    await run(command, undefined, { tool, idempotencyKey: 'k1' });
    const again = await run(command, undefined, { tool, idempotencyKey: 'k1' });
    expect(again.meta).toMatchObject({ replayed: true });
    const session = await run("select current_schema() as s, current_setting('my.tenant', true) as t", undefined, {
      tool,
    });
    expect((session.result as { rows: { s: string; t: string | null }[] }).rows[0]?.s).toBe('public');
    expect((session.result as { rows: { s: string; t: string | null }[] }).rows[0]?.t ?? '').toBe('');
  });

  test('statements that remove the key do not get through', async () => {
    await run(INSERT, ['a'], { idempotencyKey: 'k0' });
    const outcome = await run("delete from runledger_effects; insert into orders (name) values ('b')", undefined, {
      idempotencyKey: 'k1',
    });
    expect(errorOf(outcome)).toMatchObject({ code: 'TASK_FAILED', retryable: false });
    expect(await countOrders()).toBe(1);
  });

  test('a result too large for the table comes back without its rows', async () => {
    const command =
      "insert into orders (name) select repeat('x', 1000) || g from generate_series(1, 1000) g returning name";
    const first = await run(command, undefined, { idempotencyKey: 'k1' });
    const second = await run(command, undefined, { idempotencyKey: 'k1' });
    expect((first.result as { rows: unknown[] }).rows).toHaveLength(1000);
    expect(second.result).toMatchObject({ rows: [], row_count: 1000, columns: ['name'] });
  });

  test('without a key, and where it is switched off, nothing is left in the target', async () => {
    expect((await run(INSERT, ['a'])).meta).toEqual({ exact: false });
    const tool = postgresTool({ exactWrites: false });
    expect((await run(INSERT, ['b'], { tool, idempotencyKey: 'k' })).meta).toEqual({ exact: false });
    const context = callContext({ secrets: { main: database.url }, idempotencyKey: 'k' });
    expect(await tool.reconcile({ auth: 'main', command: INSERT, params: ['b'] }, context)).toMatchObject({
      found: 'unknown',
    });
    expect((await admin.query("select to_regclass('runledger_effects') as t")).rows[0].t).toBeNull();
  });

  test('a role that may not create the table writes all the same, and says that it is not exact', async () => {
    await admin.query(
      "do $$ begin create role plain_writer login password 'pw'; exception when duplicate_object then null; end $$",
    );
    await admin.query('revoke create on schema public from public');
    await admin.query(
      'grant insert, select on orders to plain_writer; grant usage on sequence orders_id_seq to plain_writer',
    );
    const url = new URL(database.url);
    url.username = 'plain_writer';
    url.password = 'pw';
    const outcome = await run(INSERT, ['a'], { url: url.href, idempotencyKey: 'k1' });
    expect(outcome).toMatchObject({
      status: 'ok',
      meta: { exact: false, reason: expect.stringContaining('may not create') },
    });
    const context = callContext({ secrets: { main: url.href }, idempotencyKey: 'k1' });
    const answer = await postgresTool().reconcile({ auth: 'main', command: INSERT, params: ['a'] }, context);
    expect(answer.found).toBe('unknown');
    await admin.query('drop owned by plain_writer; drop role plain_writer');
  });

  test('reconcile waits for a transaction that still holds the key', async () => {
    await run(INSERT, ['a'], { idempotencyKey: 'k0' });
    const holder = new pg.Client({ connectionString: database.url });
    await holder.connect();
    const key = (await admin.query('select key from runledger_effects')).rows[0].key as string;
    await admin.query('delete from runledger_effects');
    await holder.query('begin');
    await holder.query('insert into runledger_effects (key, result) values ($1, $2)', [key, '{"row_count": 7}']);
    const context = callContext({ secrets: { main: database.url }, idempotencyKey: 'k0' });
    const input = { auth: 'main', command: INSERT, params: ['a'] };
    let answered = false;
    const answer = postgresTool()
      .reconcile(input, context)
      .finally(() => {
        answered = true;
      });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(answered).toBe(false);
    await holder.query('commit');
    expect(await answer).toEqual({ found: 'happened', result: { row_count: 7 } });
    await holder.query('begin');
    await holder.query('delete from runledger_effects');
    await holder.query('commit');
    await holder.query('begin');
    await holder.query('insert into runledger_effects (key) values ($1)', [key]);
    const patient = callContext({ secrets: { main: database.url }, idempotencyKey: 'k0', timeoutMs: 200 });
    expect((await postgresTool().reconcile(input, patient)).found).toBe('unknown');
    await holder.end();
  });

  test.each([
    ['before', 'absent', 1],
    ['after', 'happened', 1],
  ] as const)(
    'a worker killed %s its COMMIT was confirmed: the write is %s, and done once in the end',
    async (moment, found, total) => {
      await killedWrite('crash', moment);
      const context = callContext({ secrets: { main: database.url }, idempotencyKey: 'crash' });
      const input = { auth: 'main', command: INSERT, params: ['first'] };
      const answer = await postgresTool().reconcile(input, context);
      expect(answer.found).toBe(found);
      if (answer.found === 'happened') expect(answer.result).toMatchObject({ rows: [{ id: 1, name: 'first' }] });
      // What a finder does after `absent`, and what a hasty one does anyway.
      expect((await run(INSERT, ['first'], { idempotencyKey: 'crash' })).status).toBe('ok');
      expect(await countOrders()).toBe(total);
    },
  );

  test('a worker killed with its COMMIT on the wire: whatever became of it, reconcile says it', async () => {
    for (let i = 0; i < 3; i++) {
      await admin.query('truncate orders');
      await killedWrite(`wire-${i}`, 'sent');
      const context = callContext({ secrets: { main: database.url }, idempotencyKey: `wire-${i}` });
      const answer = await postgresTool().reconcile({ auth: 'main', command: INSERT, params: ['first'] }, context);
      expect(answer.found).toBe((await countOrders()) === 1 ? 'happened' : 'absent');
      expect((await run(INSERT, ['first'], { idempotencyKey: `wire-${i}` })).status).toBe('ok');
      expect(await countOrders()).toBe(1);
    }
  });

  async function killedWrite(key: string, moment: string): Promise<void> {
    const script = join(import.meta.dirname, 'killed-write.fixture.ts');
    const child = spawn(process.execPath, ['--import', 'tsx', script, database.url, key, moment], { stdio: 'inherit' });
    const [, signal] = await once(child, 'exit');
    expect(signal).toBe('SIGKILL');
  }
});

describe('lost connections', () => {
  /** Passes bytes on to the test database's socket until `cut` is called. */
  async function proxy(
    onCommit: (client: Socket, server: Socket, chunk: Buffer) => void,
  ): Promise<{ url: string; close(): void }> {
    const target = new URL(database.url);
    const folder = target.searchParams.get('host');
    const net = await import('node:net');
    const sockets: Socket[] = [];
    const server = createServer((client) => {
      const upstream = folder?.startsWith('/')
        ? net.connect(join(folder, `.s.PGSQL.${target.port || 5432}`))
        : net.connect(Number(target.port || 5432), target.hostname);
      sockets.push(client, upstream);
      client.on('error', () => {});
      upstream.on('error', () => {});
      client.on('data', (chunk) => {
        if (chunk.includes('COMMIT\0')) onCommit(client, upstream, chunk);
        else upstream.write(chunk);
      });
      upstream.on('data', (chunk) => client.write(chunk));
      client.on('close', () => upstream.destroy());
      upstream.on('close', () => client.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const url = new URL(database.url);
    url.searchParams.delete('host');
    url.hostname = '127.0.0.1';
    url.port = String(port);
    return {
      url: url.href,
      close: () => {
        for (const socket of sockets) socket.destroy();
        server.close();
      },
    };
  }

  test('a connection lost before the COMMIT arrived leaves the write unknown, and reconcile finds it absent', async () => {
    const cut = await proxy((client, server) => {
      client.destroy();
      server.destroy();
    });
    const outcome = await run(INSERT, ['a'], { url: cut.url, idempotencyKey: 'k1' });
    expect(errorOf(outcome)).toMatchObject({ kind: 'postgres', retryable: true, unknown: true });
    const context = callContext({ secrets: { main: database.url }, idempotencyKey: 'k1' });
    expect((await postgresTool().reconcile({ auth: 'main', command: INSERT, params: ['a'] }, context)).found).toBe(
      'absent',
    );
    cut.close();
  });

  test('a connection lost after the COMMIT arrived leaves it unknown too, and reconcile finds it', async () => {
    const cut = await proxy((client, server, chunk) => {
      server.removeAllListeners('data');
      server.write(chunk);
      server.once('data', () => client.destroy());
    });
    const outcome = await run(INSERT, ['a'], { url: cut.url, idempotencyKey: 'k1' });
    expect(errorOf(outcome)).toMatchObject({ unknown: true });
    const context = callContext({ secrets: { main: database.url }, idempotencyKey: 'k1' });
    expect(await postgresTool().reconcile({ auth: 'main', command: INSERT, params: ['a'] }, context)).toMatchObject({
      found: 'happened',
      result: { row_count: 1 },
    });
    cut.close();
  });

  test('a COMMIT that is not answered before the deadline is unknown', async () => {
    const cut = await proxy(() => {});
    const outcome = await run(INSERT, ['a'], { url: cut.url, idempotencyKey: 'k1', signal: AbortSignal.timeout(500) });
    expect(errorOf(outcome)).toMatchObject({ kind: 'timeout', code: 'TASK_TIMEOUT', unknown: true });
    cut.close();
  });

  test('a connection that breaks in the middle of a statement is retryable and not unknown', async () => {
    const tool = postgresTool();
    const running = run('insert into orders (name) select pg_sleep(20)::text', undefined, { tool });
    await untilSleeping();
    await admin.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(20)%' and pid <> pg_backend_pid()",
    );
    const outcome = await running;
    expect(errorOf(outcome)).toMatchObject({ code: '57P01', retryable: true });
    expect(errorOf(outcome).unknown).toBeUndefined();
    expect((await run('select 1', undefined, { tool })).status).toBe('ok');
  });

  test('a server that is not there is retryable', async () => {
    const outcome = await run('select 1', undefined, { url: 'postgres://u:p@127.0.0.1:1/x' });
    expect(errorOf(outcome)).toMatchObject({ kind: 'postgres', code: 'ECONNREFUSED', retryable: true });
  });
});

async function untilSleeping(): Promise<void> {
  for (;;) {
    const { rowCount } = await admin.query(
      "select 1 from pg_stat_activity where query like '%pg_sleep(20)%' and wait_event = 'PgSleep'",
    );
    if (rowCount) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe('time and cancellation', () => {
  const sleeping = async (): Promise<number> =>
    (
      await admin.query(
        "select count(*)::int as n from pg_stat_activity where query like '%pg_sleep(20)%' and wait_event = 'PgSleep'",
      )
    ).rows[0].n;

  test('an abort ends the query on the server, and the write has not happened', async () => {
    const controller = new AbortController();
    const command = "insert into orders (name) select 'a' from pg_sleep(20)";
    const running = run(command, undefined, { signal: controller.signal, idempotencyKey: 'k1' });
    await untilSleeping();
    controller.abort(new AppError('CANCELLED', 'stop'));
    const outcome = await running;
    expect(errorOf(outcome)).toMatchObject({ kind: 'cancelled', code: 'CANCELLED' });
    expect(errorOf(outcome).unknown).toBeUndefined();
    expect(await sleeping()).toBe(0);
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
