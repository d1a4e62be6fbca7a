import { describe, expect, test } from 'vitest';
import { callContext, memoryArtifacts } from '../../testing/call-context.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import type { ArtifactStore, ToolOutcome } from '../tool.ts';
import { artifactTool } from './artifact-tool.ts';

const artifacts = memoryArtifacts();
const call = (input: Record<string, unknown>, store: ArtifactStore = artifacts): Promise<ToolOutcome> =>
  artifactTool().call(input, callContext({ artifacts: store }));

describe('put and get', () => {
  test.each([
    ['JSON', { data: { a: [1, null] } }, { a: [1, null] }, 'json'],
    ['a text', { data: 'hällo' }, 'hällo', 'text'],
    ['a text that looks like JSON', { data: '{"a":1}' }, { a: 1 }, 'json'],
    ['a JSON string', { data: 'x', encoding: 'json' }, 'x', 'json'],
    ['bytes', { data: '/wAB', encoding: 'base64' }, '/wAB', 'base64'],
    ['null', { data: null }, null, 'json'],
  ])('%s comes back', async (_name, fields, expected, encoding) => {
    const ref = (await call({ action: 'put', artifact_kind: 'report', ...fields })).result as {
      uri: string;
      kind: string;
    };
    expect(ref).toMatchObject({ kind: 'report', sha256: expect.any(String), sizeBytes: expect.any(Number) });
    for (const wanted of [ref, ref.uri]) {
      expect((await call({ action: 'get', ref: wanted })).result).toMatchObject({
        data: expected,
        encoding,
        uri: ref.uri,
      });
    }
  });

  test('the encoding decides how it is given', async () => {
    const ref = (await call({ action: 'put', data: { a: 1 } })).result;
    const as = async (encoding: string) =>
      ((await call({ action: 'get', ref, encoding })).result as { data: unknown }).data;
    expect(await as('text')).toBe('{"a":1}');
    expect(await as('base64')).toBe(Buffer.from('{"a":1}').toString('base64'));
  });

  test.each([
    [{ action: 'put' }, 'INVALID_STEP_SCHEMA'],
    [{ action: 'put', data: 'not base64!', encoding: 'base64' }, 'INVALID_STEP_SCHEMA'],
    [{ action: 'get' }, 'INVALID_STEP_SCHEMA'],
    [{ action: 'get', ref: 'memory:none' }, 'ARTIFACT_NOT_FOUND'],
  ])('%j fails with %s', async (input, code) => {
    const outcome = await call(input);
    expect(outcome).toMatchObject({ status: 'error', error: { code, retryable: false } });
    expect(outcome.status === 'error' && outcome.error.unknown).toBeFalsy();
  });

  test('what is no text is not given as one', async () => {
    const ref = (await call({ action: 'put', data: '/wAB', encoding: 'base64' })).result;
    expect(await call({ action: 'get', ref, encoding: 'text' })).toMatchObject({
      error: { code: 'INVALID_STEP_SCHEMA' },
    });
    expect(await call({ action: 'get', ref, encoding: 'json' })).toMatchObject({
      error: { code: 'INVALID_STEP_SCHEMA' },
    });
  });

  test('a store that fails may be tried again, and nothing was stored', async () => {
    const full: ArtifactStore = {
      ...artifacts,
      put: () => Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' })),
    };
    const outcome = await call({ action: 'put', data: 1 }, full);
    expect(outcome).toMatchObject({ status: 'error', error: { code: 'ENOSPC', retryable: true } });
    expect(outcome.status === 'error' && outcome.error.unknown).toBeFalsy();
  });
});

toolSuite('artifact', {
  open: () => artifactTool(),
  context: () => ({ artifacts }),
  cases: [
    {
      title: 'put',
      input: { action: 'put', data: { a: 'hidden-1' }, artifact_kind: 'report' },
      effect: 'write',
      hidden: ['hidden'],
    },
    { title: 'get of nothing', input: { action: 'get', ref: 'memory:none' }, effect: 'read', fails: 'artifact' },
  ],
});
