import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { canonicalJson } from '../../lib/canonical-json.ts';
import { callContext } from '../../testing/call-context.ts';
import {
  admin,
  countOrders,
  database,
  errorOf,
  INSERT,
  postgresTool,
  run,
  untilSleeping,
  useOrders,
} from './orders.fixture.ts';

useOrders();

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

  test('twenty calls at once with one key write once and all get its result, also when none has made the table yet', async () => {
    const tool = postgresTool({ maxConnections: 20 });
    for (let round = 0; round < 20; round++) {
      await admin.query('drop table if exists runledger_effects; truncate orders');
      await Promise.all(Array.from({ length: 20 }, () => run('select pg_sleep(0.01)', undefined, { tool })));
      // One tool knows a table that is gone by now, the other has not looked for it yet.
      const fresh = postgresTool({ maxConnections: 20 });
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          run(INSERT, [`n${i}`], { tool: round % 2 ? fresh : tool, idempotencyKey: `k${round}` }),
        ),
      );
      expect(outcomes.map(({ status }) => status)).toEqual(Array(20).fill('ok'));
      expect(new Set(outcomes.map((outcome) => canonicalJson(outcome.result))).size).toBe(1);
      expect(outcomes.filter(({ meta }) => !meta?.['replayed'])).toHaveLength(1);
      expect(await countOrders()).toBe(1);
    }
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

  test('a worker that is killed again and again while it writes has written everything once in the end', async () => {
    const total = 400;
    await admin.query('create table written (n int)');
    const script = join(import.meta.dirname, 'many-writes.fixture.ts');
    for (let kills = 0; ; kills++) {
      const child = spawn(process.execPath, ['--import', 'tsx', script, database.url, String(total)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let isDone = false;
      child.stdout.on('data', () => {
        isDone = true;
      });
      // Killed at some moment after its first new writes; the last worker is left to finish.
      const seen = (await admin.query('select count(*)::int as n from written')).rows[0].n as number;
      const ended = once(child, 'exit');
      while (kills < 3 && child.exitCode === null) {
        const { n } = (await admin.query('select count(*)::int as n from written')).rows[0];
        if (n > seen + 10 * Math.random()) child.kill('SIGKILL');
        await new Promise((resolve) => setTimeout(resolve, 3));
        if (child.signalCode !== null) break;
      }
      await ended;
      if (isDone) break;
    }
    const { rows } = await admin.query('select n, count(*)::int as times from written group by n order by n');
    expect(rows).toEqual(Array.from({ length: total }, (_, n) => ({ n, times: 1 })));
  }, 120_000);

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
