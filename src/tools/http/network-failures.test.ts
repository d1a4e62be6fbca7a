import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { callContext } from '../../testing/call-context.ts';
import { closeAll, echo, errorOf, get, httpTool, serve } from './http-calls.fixture.ts';
import { makeCertificate, startServer, type TestServer } from './test-server.fixture.ts';

afterEach(closeAll);

describe('failures of the network', () => {
  test('a refused connection may be retried, and a write has not happened', async () => {
    const server = await serve(echo);
    await server.close();
    const error = errorOf(await get(server.origin, { method: 'POST' }));
    expect(error).toMatchObject({ kind: 'http', code: 'ECONNREFUSED', retryable: true });
    expect(error.unknown).toBeUndefined();
  });

  test('a name that does not exist is not retried', async () => {
    const resolve = () => Promise.reject(Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' }));
    const error = errorOf(
      await httpTool({ resolve }).call({ url: 'http://none.example', method: 'POST' }, callContext()),
    );
    expect(error).toMatchObject({ code: 'ENOTFOUND', retryable: false });
    expect(error.unknown).toBeUndefined();
  });

  test('a reset before the answer leaves a write unknown', async () => {
    const server = await serve((_request, _response, socket) => socket.resetAndDestroy());
    const write = errorOf(await get(server.origin, { method: 'POST' }));
    expect(write).toMatchObject({ code: 'ECONNRESET', retryable: true, unknown: true });
    const read = errorOf(await get(server.origin));
    expect(read).toMatchObject({ code: 'ECONNRESET', retryable: true });
    expect(read.unknown).toBeUndefined();
  });

  test('what the author declared counts for more than the method', async () => {
    const server = await serve((_request, _response, socket) => socket.resetAndDestroy());
    const search = await get(server.origin, { method: 'POST' }, { effectClass: 'read', idempotencyKey: 'k' });
    expect(errorOf(search).unknown).toBeUndefined();
    const trigger = await get(server.origin, {}, { effectClass: 'write', idempotencyKey: 'k' });
    expect(errorOf(trigger).unknown).toBe(true);
    expect(server.seen.map(({ headers }) => 'idempotency-key' in headers)).toEqual([false, true]);
  });

  test('a body that ends early is an error, and a write stays unknown', async () => {
    const server = await serve((_request, response, socket) => {
      response.writeHead(200, { 'content-length': '1000', 'content-type': 'text/plain' });
      response.write('begin');
      setTimeout(() => socket.destroy(), 20);
    });
    expect(errorOf(await get(server.origin, { method: 'POST' }))).toMatchObject({ retryable: true, unknown: true });
    expect(errorOf(await get(server.origin))).toMatchObject({ retryable: true });
  });

  test('the same reset in the middle of a streamed body fails the call and not the process', async () => {
    const server = await serve((_request, response, socket) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write('x'.repeat(10_000));
      setTimeout(() => socket.destroy(), 20);
    });
    const outcome = await httpTool({ inlineBytes: 100 }).call({ url: server.origin }, callContext());
    expect(errorOf(outcome)).toMatchObject({ kind: 'http', retryable: true });
  });

  test.each([
    ['a deadline', new AppError('TASK_TIMEOUT', 'late'), { kind: 'timeout', code: 'TASK_TIMEOUT', retryable: true }],
    ['a cancellation', new AppError('CANCELLED', 'stop'), { kind: 'cancelled', code: 'CANCELLED', retryable: false }],
  ])('%s before the answer closes the socket', async (_name, reason, expected) => {
    const controller = new AbortController();
    const server = await serve(() => controller.abort(reason));
    const outcome = await get(server.origin, { method: 'POST' }, { signal: controller.signal });
    expect(errorOf(outcome)).toMatchObject({ ...expected, unknown: true });
    await server.untilQuiet();
  });

  test('a deadline in the middle of a slow body closes the socket', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      const timer = setInterval(() => response.write('x'), 5);
      response.on('close', () => clearInterval(timer));
    });
    const outcome = await get(server.origin, {}, { signal: AbortSignal.timeout(100) });
    expect(errorOf(outcome)).toMatchObject({ kind: 'timeout', code: 'TASK_TIMEOUT' });
    await server.untilQuiet();
  });

  test('an aborted call sends nothing and waits for no name server', async () => {
    const resolve = () => new Promise<never>(() => {});
    const signal = AbortSignal.timeout(20);
    const outcome = await httpTool({ resolve }).call(
      { url: 'http://slow.example', method: 'POST' },
      callContext({ signal }),
    );
    expect(errorOf(outcome)).toMatchObject({ code: 'TASK_TIMEOUT' });
    expect(errorOf(outcome).unknown).toBeUndefined();
    const server = await serve(echo);
    const before = await get(server.origin, { method: 'POST' }, { signal: AbortSignal.abort() });
    expect(errorOf(before)).toMatchObject({ code: 'CANCELLED' });
    expect(errorOf(before).unknown).toBeUndefined();
    expect(server.seen).toEqual([]);
  });

  test('a server that takes no connection runs into the time limit of connecting', async () => {
    // A TLS handshake that nobody answers.
    const server = await import('node:net').then((net) => net.createServer(() => {}));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const tool = httpTool({ connectTimeoutMs: 50 });
    const error = errorOf(await tool.call({ url: `https://127.0.0.1:${port}`, method: 'POST' }, callContext()));
    expect(error).toMatchObject({ code: 'ETIMEDOUT', retryable: true });
    expect(error.unknown).toBeUndefined();
    server.close();
  });

  test('a kept connection that the server closed meanwhile is not an error of the next read', async () => {
    let answered = 0;
    const server = await serve((request, response, socket) => {
      answered += 1;
      // The second request arrives on the kept connection, which is torn down under it.
      if (answered === 2) socket.resetAndDestroy();
      else echo(request, response, socket);
    });
    const tool = httpTool();
    expect((await tool.call({ url: server.origin }, callContext())).status).toBe('ok');
    expect((await tool.call({ url: server.origin }, callContext())).status).toBe('ok');
    expect(answered).toBe(3);
  });

  test('reads share a connection and writes do not', async () => {
    const ports: (number | undefined)[] = [];
    const server = await serve((request, response, socket) => {
      ports.push(socket.remotePort);
      echo(request, response, socket);
    });
    const tool = httpTool();
    for (const method of ['GET', 'GET', 'POST', 'POST']) await tool.call({ url: server.origin, method }, callContext());
    expect(ports[0]).toBe(ports[1]);
    expect(new Set(ports).size).toBe(3);
  });
});

describe('TLS', () => {
  let tls: { key: string; cert: string };
  let server: TestServer;
  beforeAll(async () => {
    tls = makeCertificate();
    server = await startServer(echo, tls);
  });
  afterAll(() => server.close());

  test('a certificate of an unknown authority is refused, and not retried', async () => {
    const error = errorOf(await get(server.origin, { method: 'POST' }));
    expect(error).toMatchObject({ kind: 'http', retryable: false });
    expect(error.code).toMatch(/SELF_SIGNED|UNABLE_TO_VERIFY/);
    expect(error.unknown).toBeUndefined();
    expect(server.seen).toEqual([]);
  });

  test('an authority of the configuration is trusted, also for a name that was resolved once', async () => {
    const resolve = async () => [{ address: '127.0.0.1' }];
    const tool = httpTool({ ca: tls.cert, resolve });
    expect((await tool.call({ url: server.origin }, callContext())).status).toBe('ok');
    expect((await tool.call({ url: `https://pinned.example:${server.port}` }, callContext())).status).toBe('ok');
    const other = errorOf(await tool.call({ url: `https://other.example:${server.port}` }, callContext()));
    expect(other.code).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
  });

  test('verify_ssl: false works only where the configuration allows it', async () => {
    const tool = httpTool({ allowUnverifiedTls: true });
    const fields = { url: server.origin, verify_ssl: false };
    expect((await tool.call(fields, callContext())).status).toBe('ok');
    expect((await tool.call({ url: server.origin }, callContext())).status).toBe('error');
  });
});
