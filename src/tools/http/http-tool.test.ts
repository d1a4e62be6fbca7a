import { once } from 'node:events';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { callContext, memoryArtifacts } from '../../testing/call-context.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import { createToolRegistry } from '../registry.ts';
import type { CallContext, ToolOutcome } from '../tool.ts';
import { HttpTool, type HttpToolOptions } from './http-tool.ts';
import { type Handler, makeCertificate, startServer, type TestServer } from './test-server.fixture.ts';

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const item of opened.splice(0).reverse()) await item.close();
});

async function serve(handler: Handler, tls?: { key: string; cert: string }): Promise<TestServer> {
  const server = await startServer(handler, tls);
  opened.push(server);
  return server;
}

function httpTool(options: HttpToolOptions = {}): HttpTool {
  const tool = new HttpTool(options);
  opened.push(tool);
  return tool;
}

type Result = Record<string, unknown> & { headers: Record<string, string> };
const resultOf = (outcome: ToolOutcome): Result => outcome.result as Result;
const errorOf = (outcome: ToolOutcome) => {
  if (outcome.status !== 'error') throw new Error(`expected an error, got ${JSON.stringify(outcome.result)}`);
  return outcome.error;
};
const get = (url: string, fields: Record<string, unknown> = {}, context: Partial<CallContext> = {}) =>
  httpTool().call({ url, ...fields }, callContext(context));
const echo: Handler = (request, response) => {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(request));
};

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

describe('answers', () => {
  const answering =
    (status: number, headers: Record<string, string> = {}, body: string | Buffer = ''): Handler =>
    (_request, response) => {
      response.writeHead(status, headers).end(body);
    };

  test.each([
    [400, false],
    [401, false],
    [404, false],
    [408, true],
    [409, false],
    [425, true],
    [429, true],
    [500, true],
    [503, true],
  ])('%i is an error with its body, retryable: %s', async (status, retryable) => {
    const server = await serve(answering(status, { 'content-type': 'application/json', 'x-a': 'b' }, '{"why": "so"}'));
    const outcome = await get(server.origin, { method: 'POST' });
    expect(errorOf(outcome)).toMatchObject({ kind: 'http', code: String(status), retryable });
    expect(errorOf(outcome).unknown).toBeUndefined();
    expect(outcome.http).toMatchObject({ status, headers: { 'x-a': 'b' } });
    expect(resultOf(outcome)).toMatchObject({ status: 'error', status_code: status, data: { why: 'so' } });
  });

  test('a gateway that lost the answer leaves a write unknown and a read plain', async () => {
    const server = await serve(answering(504));
    expect(errorOf(await get(server.origin, { method: 'POST' }))).toMatchObject({ retryable: true, unknown: true });
    expect(errorOf(await get(server.origin)).unknown).toBeUndefined();
  });

  test('Retry-After is understood as seconds and as a date of the server', async () => {
    const date = new Date(Date.now() - 3_600_000);
    const at = new Date(date.getTime() + 90_000);
    const cases: [Record<string, string>, number | undefined][] = [
      [{ 'retry-after': '7' }, 7000],
      [{ 'retry-after': at.toUTCString(), date: date.toUTCString() }, 90_000],
      [{ 'retry-after': date.toUTCString(), date: at.toUTCString() }, 0],
      [{ 'retry-after': 'soon' }, undefined],
      [{ 'retry-after': '-5' }, undefined],
      [{ 'retry-after': '99999999999999' }, 86_400_000],
    ];
    for (const [headers, expected] of cases) {
      const server = await serve(answering(429, headers));
      expect(errorOf(await get(server.origin)).retryAfterMs, JSON.stringify(headers)).toBe(expected);
    }
  });

  test.each([
    ['application/json', '{"a": 1}', { a: 1 }],
    ['application/problem+json; charset=utf-8', '{"a": 1}', { a: 1 }],
    ['application/json', '{"a": ', '{"a": '],
    ['application/json', '', ''],
    ['text/plain', '{"a": 1}', '{"a": 1}'],
    ['text/html', '<p>', '<p>'],
    ['application/json', '{"__proto__": {"x": 1}}', JSON.parse('{"__proto__": {"x": 1}}')],
  ])('%s %s is read', async (type, body, expected) => {
    const server = await serve(answering(200, { 'content-type': type }, body));
    const result = resultOf(await get(server.origin));
    expect(result['data']).toEqual(expected);
    expect(result['body']).toEqual(expected);
  });

  test('JSON that is nested deeper than the log can hold stays text', async () => {
    const body = `${'['.repeat(500)}${']'.repeat(500)}`;
    const server = await serve(answering(200, { 'content-type': 'application/json' }, body));
    expect(resultOf(await get(server.origin))['data']).toBe(body);
  });

  test('a charset is honoured', async () => {
    const server = await serve(
      answering(200, { 'content-type': 'text/plain; charset=ISO-8859-1' }, Buffer.from([0xe5])),
    );
    expect(resultOf(await get(server.origin))['data']).toBe('å');
  });

  test.each([
    ['image/png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 255])],
    ['text/plain', Buffer.from([0xff, 0xfe, 0xfd])],
    ['', Buffer.from([0xff, 0, 1])],
  ])('binary of type "%s" becomes an artifact, byte for byte', async (type, bytes) => {
    const server = await serve(answering(200, type ? { 'content-type': type } : {}, bytes));
    const artifacts = memoryArtifacts();
    const outcome = await get(server.origin, {}, { artifacts });
    const { artifact, data } = resultOf(outcome) as unknown as {
      artifact: { uri: string; sizeBytes: number };
      data: null;
    };
    expect(data).toBeNull();
    expect(await artifacts.get(artifact.uri)).toEqual(bytes);
    expect(artifact.sizeBytes).toBe(bytes.length);
    expect(outcome.meta?.['artifacts']).toEqual([artifact]);
  });

  test('a body over the threshold is streamed to the artifact store', async () => {
    const server = await serve((_request, response) => {
      response.setHeader('content-type', 'text/plain');
      for (let i = 0; i < 100; i++) response.write('x'.repeat(1000));
      response.end();
    });
    const artifacts = memoryArtifacts();
    const outcome = await httpTool({ inlineBytes: 5000 }).call({ url: server.origin }, callContext({ artifacts }));
    const { artifact } = resultOf(outcome) as unknown as { artifact: { uri: string; sizeBytes: number; kind: string } };
    expect(artifact).toMatchObject({ sizeBytes: 100_000, kind: 'http-body' });
    expect((await artifacts.get(artifact.uri)).toString()).toBe('x'.repeat(100_000));
  });

  test('a body over the hard limit is given up and the connection closed', async () => {
    let stopped = false;
    const server = await serve((_request, response) => {
      response.setHeader('content-type', 'text/plain');
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
      };
      response.on('drain', more).on('close', () => {
        stopped = true;
      });
      more();
    });
    const tool = httpTool({ inlineBytes: 1000, maxBytes: 1_000_000 });
    const error = errorOf(await tool.call({ url: server.origin }, callContext()));
    expect(error).toMatchObject({ code: 'RESPONSE_TOO_LARGE', retryable: false });
    await server.untilQuiet();
    expect(stopped).toBe(true);
  });

  test.each([
    ['gzip', gzipSync],
    ['br', (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } })],
  ] as const)('a %s bomb is stopped at the limit of decoded bytes', async (encoding, compress) => {
    const bomb = compress(Buffer.alloc(50_000_000));
    const server = await serve(answering(200, { 'content-encoding': encoding, 'content-type': 'text/plain' }, bomb));
    const tool = httpTool({ maxBytes: 2_000_000 });
    expect(errorOf(await tool.call({ url: server.origin }, callContext())).code).toBe('RESPONSE_TOO_LARGE');
  });

  test.each([
    ['gzip', gzipSync('hello')],
    ['br', brotliCompressSync('hello')],
    ['gzip, br', brotliCompressSync(gzipSync('hello'))],
  ])('%s is decoded', async (encoding, bytes) => {
    const server = await serve(answering(200, { 'content-encoding': encoding, 'content-type': 'text/plain' }, bytes));
    expect(resultOf(await get(server.origin))['data']).toBe('hello');
  });

  test.each([
    ['zstd', Buffer.from('hello')],
    ['gzip', Buffer.from('hello')],
    ['gzip', gzipSync('hello').subarray(0, 20)],
  ])('an answer that is not %s is an error', async (encoding, bytes) => {
    const server = await serve(answering(200, { 'content-encoding': encoding, 'content-type': 'text/plain' }, bytes));
    expect(errorOf(await get(server.origin))).toMatchObject({ kind: 'http', retryable: false });
  });

  test('HEAD, 204 and 304 have no body', async () => {
    const server = await serve((request, response) => {
      response.writeHead(Number(request.url.slice(1)), { 'content-type': 'application/json' }).end();
    });
    for (const [method, status] of [
      ['HEAD', 200],
      ['GET', 204],
      ['GET', 304],
    ] as const) {
      const outcome = await get(`${server.origin}/${status}`, { method });
      expect(resultOf(outcome)).toMatchObject({ status_code: status, data: null });
    }
  });

  test('cookies stay apart', async () => {
    const server = await serve((_request, response) => {
      response.setHeader('set-cookie', ['a=1; expires=Mon, 01 Jan 2030', 'b=2']);
      response.end();
    });
    expect(resultOf(await get(server.origin)).headers['set-cookie']).toBe('a=1; expires=Mon, 01 Jan 2030\nb=2');
  });
});

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
