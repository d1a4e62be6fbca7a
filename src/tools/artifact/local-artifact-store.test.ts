import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { sha256Hex } from '../../lib/hash.ts';
import { LocalArtifactStore } from './local-artifact-store.ts';

let folder: string;
let store: LocalArtifactStore;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'runledger-artifacts-'));
  store = new LocalArtifactStore({ folder });
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return 'done';
  } catch (error) {
    return error instanceof AppError ? error.code : String(error);
  }
};
const fileOf = (sha256: string): string => join(folder, 'sha256', sha256.slice(0, 2), sha256);
async function* chunksOf(...chunks: string[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

test('ES-2c what is put comes back by its reference, which names hash and size', async () => {
  const ref = await store.put(Buffer.from('hello'), 'report');
  const sha256 = sha256Hex('hello');
  expect(ref).toEqual({ uri: `runledger-artifact:sha256/${sha256}`, sha256, sizeBytes: 5 });
  expect(Buffer.from(await store.get(ref.uri)).toString()).toBe('hello');
  const other = new LocalArtifactStore({ folder });
  expect(Buffer.from(await other.get(ref.uri)).toString()).toBe('hello');
});

test('any bytes, whole or in any pieces, come back as they were and have one reference', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 5 }), async (chunks) => {
      const whole = Buffer.concat(chunks);
      const streamed = await store.put(
        (async function* () {
          yield* chunks;
        })(),
        'k',
      );
      expect(await store.put(whole, 'k')).toEqual(streamed);
      expect(Buffer.from(await store.get(streamed.uri))).toEqual(whole);
    }),
    { numRuns: 50 },
  );
});

test('bytes that changed on disk are refused, and putting them again mends them', async () => {
  const ref = await store.put(Buffer.from('precious'), 'k');
  await writeFile(fileOf(ref.sha256), 'tampered');
  expect(await codeOf(store.get(ref.uri))).toBe('ARTIFACT_CORRUPT');
  await store.put(Buffer.from('precious'), 'k');
  expect(Buffer.from(await store.get(ref.uri)).toString()).toBe('precious');
  await truncate(fileOf(ref.sha256), 3);
  expect(await codeOf(store.get(ref.uri))).toBe('ARTIFACT_CORRUPT');
});

test.each([
  'runledger-artifact:sha256/../../etc/passwd',
  `runledger-artifact:sha256/${'a'.repeat(63)}/`,
  `runledger-artifact:sha256/${'A'.repeat(64)}`,
  `runledger-artifact:sha256/${'a'.repeat(64)}\n`,
  `runledger-artifact:sha256/${'a'.repeat(64)}`,
  'file:///etc/passwd',
  '',
])('%j leads nowhere', async (uri) => {
  expect(await codeOf(store.get(uri))).toBe('ARTIFACT_NOT_FOUND');
});

test('a link in the place of an artifact is not followed', async () => {
  const ref = await store.put(Buffer.from('x'), 'k');
  await rm(fileOf(ref.sha256));
  await writeFile(join(folder, 'elsewhere'), 'x');
  await symlink(join(folder, 'elsewhere'), fileOf(ref.sha256));
  expect(await codeOf(store.get(ref.uri))).toBe('ARTIFACT_CORRUPT');
});

test('only the owner can read the files', async () => {
  const ref = await store.put(Buffer.from('x'), 'k');
  expect((await stat(fileOf(ref.sha256))).mode & 0o077).toBe(0);
  expect((await stat(join(folder, 'sha256', ref.sha256.slice(0, 2)))).mode & 0o077).toBe(0);
});

test('a stream that fails, or is too large, leaves nothing behind', async () => {
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('half');
    throw new Error('broken');
  }
  await expect(store.put(failing(), 'k')).rejects.toThrow('broken');
  const small = new LocalArtifactStore({ folder, maxBytes: 10 });
  expect(await codeOf(small.put(chunksOf('12345', '67890', '1'), 'k'))).toBe('RESPONSE_TOO_LARGE');
  expect(await readdir(join(folder, 'tmp'))).toEqual([]);
  expect(await readdir(folder)).toEqual(['tmp']);
});

test('many writers of the same bytes at once agree', async () => {
  const refs = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      i % 2 ? store.put(Buffer.from('same'), 'k') : store.put(chunksOf('sa', 'me'), 'k'),
    ),
  );
  expect(new Set(refs.map(({ uri }) => uri)).size).toBe(1);
  expect(await readdir(join(folder, 'tmp'))).toEqual([]);
});

test('a writer that is killed leaves no artifact, and what it began is cleared away after a day', async () => {
  const code = `
    import { LocalArtifactStore } from ${JSON.stringify(join(import.meta.dirname, 'local-artifact-store.ts'))};
    const store = new LocalArtifactStore({ folder: ${JSON.stringify(folder)} });
    await store.put((async function* () { yield Buffer.from('half'); process.kill(process.pid, 'SIGKILL'); yield Buffer.from('rest'); })(), 'k');
  `;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], { stdio: 'inherit' });
  expect((await once(child, 'exit'))[1]).toBe('SIGKILL');
  const [left] = await readdir(join(folder, 'tmp'));
  expect(left).toBeDefined();
  expect(await codeOf(stat(join(folder, 'sha256')))).toContain('ENOENT');
  const yesterday = new Date(Date.now() - 25 * 3600 * 1000);
  await utimes(join(folder, 'tmp', left!), yesterday, yesterday);
  const ref = await new LocalArtifactStore({ folder }).put(chunksOf('x'), 'k');
  expect(await readdir(join(folder, 'tmp'))).toEqual([]);
  expect(await readFile(fileOf(ref.sha256), 'utf8')).toBe('x');
});

describe('retention', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');

  test('ES-2e the expiry follows the policy of the kind', async () => {
    const kept = new LocalArtifactStore({ folder, now: () => now, retention: { report: 30, log: 0.5, '*': 365 } });
    const expiry = async (kind: string) => (await kept.put(Buffer.from(kind), kind)).expiresAt;
    expect(await expiry('report')).toBe('2026-01-31T00:00:00.000Z');
    expect(await expiry('log')).toBe('2026-01-01T12:00:00.000Z');
    expect(await expiry('other')).toBe('2027-01-01T00:00:00.000Z');
    expect(await expiry('toString')).toBe('2027-01-01T00:00:00.000Z');
  });

  test('ES-2e a kind without a policy does not expire', async () => {
    const some = new LocalArtifactStore({ folder, now: () => now, retention: { report: 30 } });
    expect(await some.put(Buffer.from('x'), 'other')).not.toHaveProperty('expiresAt');
  });

  test('a policy that is no number of days, or a kind that is none, is refused', async () => {
    const wrong = new LocalArtifactStore({ folder, retention: { report: Number.NaN } });
    expect(await codeOf(wrong.put(Buffer.from('x'), 'report'))).toBe('CONFIG_INVALID');
    expect(await codeOf(store.put(Buffer.from('x'), ''))).toBe('USAGE');
  });
});
