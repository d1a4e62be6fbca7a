import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { callContext, memoryArtifacts } from '../../testing/call-context.ts';
import { closeAll, errorOf, get, httpTool, resultOf, serve } from './http-calls.fixture.ts';
import type { Handler } from './test-server.fixture.ts';

afterEach(closeAll);

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
