import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { callContext } from '../../testing/call-context.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import { createToolRegistry } from '../registry.ts';
import { closeAll, echo, errorOf, get, httpTool, resultOf, serve } from './http-calls.fixture.ts';
import { HttpTool } from './http-tool.ts';
import { startServer } from './test-server.fixture.ts';

afterEach(closeAll);

describe('requests', () => {
  test('a call without a method gets, and its result has the documented shape', async () => {
    const server = await serve((_request, response) => {
      response.setHeader('content-type', 'application/json; charset=utf-8');
      response.setHeader('x-kind', 'test');
      response.end('{"cities": ["Oslo"]}');
    });
    const outcome = await get(`${server.origin}/a`, { params: { q: 'å b', n: [1, 2], none: null, on: true } });
    expect(outcome.status).toBe('ok');
    const { elapsed_ms: elapsed, headers, ...result } = resultOf(outcome);
    expect(result).toEqual({
      status_code: 200,
      status: 'success',
      url: `${server.origin}/a?q=%C3%A5+b&n=1&n=2&on=true`,
      data: { cities: ['Oslo'] },
      body: { cities: ['Oslo'] },
    });
    expect(elapsed).toBeTypeOf('number');
    expect(headers['x-kind']).toBe('test');
    expect(outcome.http?.status).toBe(200);
    expect(server.seen[0]?.method).toBe('GET');
  });

  test.each([
    ['json', { a: [1, null] }, 'application/json', '{"a":[1,null]}'],
    ['json', 'text', 'application/json', '"text"'],
    ['payload', { a: 1 }, 'application/json', '{"a":1}'],
    ['payload', '{"a":1}', 'application/json', '{"a":1}'],
    ['data', { a: 1 }, 'application/json', '{"a":1}'],
    ['data', 'plain', 'text/plain; charset=utf-8', 'plain'],
    ['body', 'pläin', 'text/plain; charset=utf-8', 'pläin'],
    ['form', { a: 'x y', b: [1, 2] }, 'application/x-www-form-urlencoded', 'a=x+y&b=1&b=2'],
  ])('%s %j is sent as %s', async (field, value, type, text) => {
    const server = await serve(echo);
    const outcome = await get(server.origin, { method: 'post', [field]: value });
    expect(outcome.status).toBe('ok');
    expect(server.seen[0]?.body).toBe(text);
    expect(server.seen[0]?.headers['content-type']).toBe(type);
    expect(server.seen[0]?.headers['content-length']).toBe(String(Buffer.byteLength(text)));
  });

  test('data is a form where its content type says so', async () => {
    const server = await serve(echo);
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    await get(server.origin, { method: 'POST', data: { a: 1, b: 'ü' }, headers });
    expect(server.seen[0]?.body).toBe('a=1&b=%C3%BC');
  });

  test.each([
    [{ url: 'http://x.example', headers: { 'x-a': 'b\r\nx-evil: 1' } }],
    [{ url: 'http://x.example', headers: { 'x-a': 'b\nGET /admin HTTP/1.1' } }],
    [{ url: 'http://x.example', headers: { 'x-a': 'b\u0000' } }],
    [{ url: 'http://x.example', headers: { 'x-a': '☃' } }],
    [{ url: 'http://x.example', headers: { 'x a': 'b' } }],
    [{ url: 'http://x.example', headers: { 'x-a': { b: 1 } } }],
    [{ url: 'http://x.example', headers: { Host: 'other' } }],
    [{ url: 'http://x.example', headers: { 'Transfer-Encoding': 'chunked' } }],
    [{ url: 'http://x.example', headers: { 'content-length': '0' } }],
    [{ url: 'http://x.example', json: {}, form: {} }],
    [{ url: 'http://x.example', method: 'TRACE' }],
    [{ url: 'http://x.example', method: 'GET / HTTP/1.1\r\nx: ' }],
    [{ url: 'not a url' }],
    [{ url: ['http://x.example'] }],
    [{ url: 'http://x.example', bogus: 1 }],
    [{ url: 'http://x.example', verify_ssl: false }],
    [{ url: 'http://x.example', auth: 7 }],
    [{}],
  ])('%j is refused before anything is sent', async (input) => {
    const resolve = () => Promise.reject(new Error('a name was asked for'));
    const error = errorOf(await createToolRegistry([httpTool({ resolve })]).call('http', input, callContext()));
    expect(error).toMatchObject({ kind: 'input', code: 'INVALID_STEP_SCHEMA', retryable: false });
    expect(error.unknown).toBeUndefined();
  });

  test('a write carries a key of its own for each tenant, a read carries none', async () => {
    const server = await serve(echo);
    const context = { idempotencyKey: 'pay:1\n☃' };
    const other = { ...callContext().place, tenantId: 'other' };
    await get(server.origin, { method: 'POST' }, context);
    await get(server.origin, { method: 'POST' }, context);
    await get(server.origin, { method: 'POST' }, { ...context, place: other });
    await get(server.origin, {}, context);
    await get(server.origin, { method: 'POST', headers: { 'Idempotency-Key': 'mine' } }, context);
    const keys = server.seen.map((request) => request.headers['idempotency-key']);
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(keys[1]).toBe(keys[0]);
    expect(keys[2]).not.toBe(keys[0]);
    expect(keys.slice(3)).toEqual([undefined, 'mine']);
  });

  test('only GET, HEAD and OPTIONS read, and PUT and DELETE may be sent again', () => {
    const tool = httpTool();
    const methods = ['GET', 'head', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'];
    const url = 'http://x.example';
    expect(methods.map((method) => tool.classify({ url, method }))).toEqual([
      'read',
      'read',
      'read',
      'write',
      'write',
      'write',
      'write',
    ]);
    expect(methods.slice(3).map((method) => tool.honoursKey({ url, method }))).toEqual([false, true, false, true]);
  });

  test('what is proposed and keyed names the target without query and values', () => {
    const tool = httpTool();
    const input = { method: 'POST', url: 'https://user:pw@x.example/pay?token=s3cret', json: { amount: 4, to: 'b' } };
    const proposed = tool.propose(input);
    expect(proposed).toEqual({ operation: 'POST', target: 'https://x.example/pay', fields: ['amount', 'to'] });
    const { place } = callContext();
    const key = tool.effectKey(input, place);
    expect(key).not.toContain('s3cret');
    expect(tool.effectKey(input, { ...place, entity: 'fetch/get:1@2' })).toBe(key);
    expect(tool.effectKey(input, { ...place, entity: 'fetch/1/get:1@1' })).not.toBe(key);
    expect(tool.effectKey({ ...input, json: { amount: 5 } }, place)).not.toBe(key);
  });
});

describe('auth', () => {
  const basic = `Basic ${Buffer.from('ann:pw').toString('base64')}`;
  test.each([
    ['a token', 'tok', { authorization: 'Bearer tok' }],
    ['a whole header', 'Basic abc', { authorization: 'Basic abc' }],
    ['{token}', { token: 'tok' }, { authorization: 'Bearer tok' }],
    ['{username, password}', { username: 'ann', password: 'pw' }, { authorization: basic }],
    ['{api_key}', { api_key: 'k' }, { 'x-api-key': 'k' }],
    ['{api_key, header, prefix}', { api_key: 'k', header: 'Auth', prefix: 'Key ' }, { auth: 'Key k' }],
    ['{headers}', { headers: { 'X-One': 'a', 'X-Two': 'b' } }, { 'x-one': 'a', 'x-two': 'b' }],
  ])('%s becomes headers', async (_name, secret, expected) => {
    const server = await serve(echo);
    const outcome = await get(server.origin, { auth: 'main' }, callContext({ secrets: { main: secret } }));
    expect(outcome.status).toBe('ok');
    expect(server.seen[0]?.headers).toMatchObject(expected);
  });

  test('the longer form says how the secret is sent', async () => {
    const server = await serve(echo);
    const context = callContext({ secrets: { main: 'tok', pair: 'ann:pw' } });
    await get(server.origin, { auth: { credential: 'main', type: 'api_key', header: 'X-Key' } }, context);
    await get(server.origin, { auth: { credential: 'pair', type: 'basic' } }, context);
    expect(server.seen[0]?.headers['x-key']).toBe('tok');
    expect(server.seen[1]?.headers['authorization']).toBe(basic);
  });

  test.each([[5], [{}], ['tok\r\nx: y'], [{ header: 'X-Key' }]])(
    'a secret of the shape %j is refused',
    async (secret) => {
      const error = errorOf(
        await get('http://127.0.0.1:1', { auth: 'main' }, callContext({ secrets: { main: secret } })),
      );
      expect(error.code).toBe('SECRET_INVALID');
      expect(error.message).not.toContain('x: y');
    },
  );

  test('a keychain entry that was rendered into the field is the secret itself', async () => {
    const server = await serve(echo);
    await get(server.origin, { auth: { token: 'tok' } });
    await get(server.origin, { auth: { username: 'ann', password: 'pw' } });
    expect(server.seen.map(({ headers }) => headers.authorization)).toEqual(['Bearer tok', basic]);
  });

  test('a secret that does not exist is said to be missing', async () => {
    expect(errorOf(await get('http://127.0.0.1:1', { auth: 'main' })).code).toBe('SECRET_NOT_FOUND');
  });

  test('credentials of the URL are sent as a header and do not come back', async () => {
    const server = await serve(echo);
    const outcome = await get(server.origin.replace('//', '//ann:p%77@'));
    expect(server.seen[0]?.headers.authorization).toBe(basic);
    expect(resultOf(outcome)['url']).toBe(`${server.origin}/`);
  });
});

const suiteServer = await startServer((request, response, socket) => {
  if (request.url === '/missing') response.writeHead(404).end();
  else if (request.url !== '/slow') echo(request, response, socket);
});
afterAll(() => suiteServer.close());

toolSuite('http', {
  open: () => new HttpTool(),
  context: () => ({ secrets: { main: 'tok' } }),
  cases: [
    { title: 'a read', input: { url: `${suiteServer.origin}/a`, auth: 'main', params: { q: 1 } }, effect: 'read' },
    {
      title: 'a write',
      input: {
        url: `${suiteServer.origin.replace('//', '//ann:hidden-1@')}/a?key=hidden-2`,
        method: 'POST',
        headers: { 'x-key': 'hidden-3' },
        json: { name: 'hidden-4' },
      },
      effect: 'write',
      hidden: ['hidden'],
    },
    { title: 'not found', input: { url: `${suiteServer.origin}/missing` }, effect: 'read', fails: 'http' },
    { title: 'no method', input: { url: suiteServer.origin, method: 'BREW' }, effect: 'write', fails: 'input' },
  ],
  slow: { url: `${suiteServer.origin}/slow`, method: 'POST' },
});
