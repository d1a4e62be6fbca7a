import { afterEach, describe, expect, test } from 'vitest';
import { callContext } from '../../testing/call-context.ts';
import { closeAll, echo, errorOf, get, httpTool, resultOf, serve } from './http-calls.fixture.ts';
import type { Handler } from './test-server.fixture.ts';

afterEach(closeAll);

describe('addresses', () => {
  test.each([
    'http://169.254.169.254/latest/meta-data/',
    'http://0xa9fea9fe/',
    'http://2852039166/',
    'http://[::ffff:169.254.169.254]/',
    'http://[fe80::1]/',
    'http://metadata.google.internal./',
    'file:///etc/passwd',
  ])('%s is refused', async (url) => {
    const error = errorOf(await get(url));
    expect(error).toMatchObject({ kind: 'http', code: 'URL_NOT_ALLOWED', retryable: false });
  });

  test('a name is resolved once and connected where it was checked', async () => {
    const server = await serve(echo);
    let asked = 0;
    // The second answer is what a rebinding name server gives after the check.
    const resolve = async () => [{ address: asked++ === 0 ? '127.0.0.1' : '169.254.169.254' }];
    const outcome = await httpTool({ resolve }).call({ url: `http://pinned.example:${server.port}/` }, callContext());
    expect(outcome.status).toBe('ok');
    expect(asked).toBe(1);
    expect(server.seen[0]?.headers.host).toBe(`pinned.example:${server.port}`);
  });

  test('a name with a forbidden answer is refused', async () => {
    const resolve = async () => [{ address: '127.0.0.1' }, { address: '169.254.169.254' }];
    const outcome = await httpTool({ resolve }).call({ url: 'http://mixed.example/' }, callContext());
    expect(errorOf(outcome).code).toBe('URL_NOT_ALLOWED');
  });

  test('loopback is refused where the configuration says so', async () => {
    const server = await serve(echo);
    const tool = httpTool({ addresses: { refuse: ['loopback', 'metadata'] } });
    expect(errorOf(await tool.call({ url: server.origin }, callContext())).code).toBe('URL_NOT_ALLOWED');
    expect(server.sockets.size).toBe(0);
  });

  test('every hop of a redirect is under the same rule', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(302, { location: 'http://0251.0376.0251.0376/latest' }).end();
    });
    expect(errorOf(await get(server.origin)).code).toBe('URL_NOT_ALLOWED');
  });

  test('a redirect to a name that resolves to a forbidden address is refused', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(302, { location: 'http://inside.example/' }).end();
    });
    const resolve = async () => [{ address: '169.254.169.254' }];
    expect(errorOf(await httpTool({ resolve }).call({ url: server.origin }, callContext())).code).toBe(
      'URL_NOT_ALLOWED',
    );
  });
});

describe('redirects', () => {
  const redirecting =
    (status: number, to: () => string): Handler =>
    (request, response) => {
      if (request.url === '/end') echo(request, response, undefined as never);
      else response.writeHead(status, { location: to() }).end('moved');
    };

  test('a chain is followed and the last URL is reported', async () => {
    const server = await serve((request, response, socket) => {
      const left = Number(request.url.slice(1));
      if (left === 0) echo(request, response, socket);
      else response.writeHead(302, { location: `./${left - 1}` }).end();
    });
    const outcome = await get(`${server.origin}/5`);
    expect(resultOf(outcome)['url']).toBe(`${server.origin}/0`);
    expect(outcome.meta).toEqual({ redirects: 5 });
    expect(errorOf(await get(`${server.origin}/11`)).code).toBe('TOO_MANY_REDIRECTS');
  });

  test('a redirect is an answer where following is switched off', async () => {
    const server = await serve(redirecting(302, () => '/end'));
    const result = resultOf(await get(server.origin, { follow_redirects: false }));
    expect(result['status_code']).toBe(302);
    expect(result.headers['location']).toBe('/end');
  });

  test.each([
    [301, 'GET', ''],
    [302, 'GET', ''],
    [303, 'GET', ''],
    [307, 'POST', '{"a":1}'],
    [308, 'POST', '{"a":1}'],
  ])('after %i a POST goes on as %s', async (status, method, body) => {
    const server = await serve(redirecting(status, () => '/end'));
    const outcome = await get(server.origin, { method: 'POST', json: { a: 1 } }, { idempotencyKey: 'k' });
    expect(outcome.status).toBe('ok');
    expect(server.seen[1]).toMatchObject({ method, body });
    expect('content-type' in (server.seen[1]?.headers ?? {})).toBe(body !== '');
  });

  test('nothing that could be a credential goes to another origin', async () => {
    const other = await serve(echo);
    const server = await serve(redirecting(302, () => `${other.origin.replace('//', '//user:pw@')}/end`));
    const headers = { cookie: 'a=b', 'x-token': 't', accept: 'application/json' };
    const outcome = await get(server.origin, { auth: 'main', headers }, callContext({ secrets: { main: 'tok' } }));
    expect(outcome.status).toBe('ok');
    expect(server.seen[0]?.headers).toMatchObject({ authorization: 'Bearer tok', cookie: 'a=b', 'x-token': 't' });
    const { host, connection, ...sent } = other.seen[0]!.headers;
    expect(sent).toEqual({ accept: 'application/json', 'accept-encoding': 'gzip, br', 'user-agent': 'runledger' });
    expect(resultOf(outcome)['url']).toBe(`${other.origin}/end`);
  });

  test('the headers stay within one origin', async () => {
    const server = await serve(redirecting(302, () => '/end'));
    await get(server.origin, { auth: 'main' }, callContext({ secrets: { main: 'tok' } }));
    expect(server.seen[1]?.headers.authorization).toBe('Bearer tok');
  });

  test('a write is not carried to another origin than the one it was let through to', async () => {
    const other = await serve(echo);
    const server = await serve(redirecting(307, () => `${other.origin}/end`));
    const error = errorOf(await get(server.origin, { method: 'POST', json: { a: 1 } }));
    expect(error.code).toBe('URL_NOT_ALLOWED');
    expect(error.unknown).toBeUndefined();
    expect(other.seen).toEqual([]);
  });

  test('a write that was answered with a redirect may have happened, though the next page fails', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(303, { location: 'http://127.0.0.1:1/' }).end();
    });
    const error = errorOf(await get(server.origin, { method: 'POST' }));
    expect(error).toMatchObject({ code: 'ECONNREFUSED', unknown: true });
  });
});
