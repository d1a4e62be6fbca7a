import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import vectors from '../../schemas/ledger-hash.vectors.json' with { type: 'json' };
import { createTestDatabase } from '../../test/setup/database.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { microsToText, textToMicros } from '../lib/time.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import {
  canonicalEnvelope,
  chainHash,
  GENESIS,
  type HashedEnvelope,
  payloadDigest,
  recordHash,
} from './record-hash.ts';
import { verifyChain } from './verify-chain.ts';

const closing: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

test('the vectors of the permanent formats hold: payload digest, envelope, record hash and chain', () => {
  let previous: Buffer = GENESIS;
  for (const { event, payloadText, salt, runSeq, persistedAt, expected } of vectors.chain) {
    const digest = payloadDigest(Buffer.from(salt, 'hex').toString('latin1'), payloadText ?? '');
    expect(digest).toBe(expected.payloadDigest);
    expect(canonicalEnvelope(event, digest)).toBe(expected.canonicalEnvelope);
    expect(recordHash(event, digest)).toBe(expected.recordHash);
    expect(String(textToMicros(persistedAt))).toBe(expected.persistedMicros);
    previous = chainHash(previous, Buffer.from(expected.recordHash, 'hex'), runSeq, textToMicros(persistedAt));
    expect(previous.toString('hex')).toBe(expected.chainHash);
  }
});

test('the vectors verify as the exported log of a run', () => {
  const records = vectors.chain.map(({ event, payloadText, salt, runSeq, persistedAt, expected }) => ({
    ...event,
    ...(payloadText === null ? {} : { payload: JSON.parse(payloadText) as unknown }),
    runSeq,
    persistedAt,
    proof: { recordHash: expected.recordHash, chainHash: expected.chainHash, salt },
  }));
  expect(verifyChain(records)).toMatchObject({ ok: true, records: 5 });
});

const text = fc.string({ unit: 'binary', maxLength: 12 });
const envelope: fc.Arbitrary<HashedEnvelope> = fc.record(
  {
    eventId: text,
    eventType: text,
    emittedAt: text,
    runId: fc.constantFrom('r1', 'r2', 'r"3'),
    tenantId: text,
    projectId: text,
    environmentId: text,
    planId: fc.constantFrom('p', 'q'),
    planVersion: fc.constantFrom('1', '2'),
    engineAttemptId: fc.nat(),
    logicalAttemptId: fc.nat(),
    idempotencyKey: text,
    stepId: text,
    entity: text,
  },
  {
    requiredKeys: [
      'eventId',
      'eventType',
      'emittedAt',
      'runId',
      'tenantId',
      'projectId',
      'environmentId',
      'planId',
      'planVersion',
      'engineAttemptId',
      'logicalAttemptId',
      'idempotencyKey',
    ],
  },
);

test('the written-out envelope is the general canonical JSON, whatever the events before it were', () => {
  fc.assert(
    fc.property(fc.array(envelope, { minLength: 1, maxLength: 6 }), (events) => {
      for (const event of events) {
        const digest = createHash('sha256').update(event.eventId).digest('hex');
        expect(canonicalEnvelope(event, digest)).toBe(canonicalJson({ ...event, payloadDigest: digest }));
      }
    }),
  );
});

test('a record that was changed in place has another hash', () => {
  const event = { ...(vectors.chain[1]?.event as RunEventWrite) };
  const digest = '0'.repeat(64);
  for (const field of ['runId', 'tenantId', 'projectId', 'environmentId', 'planId', 'planVersion', 'stepId'] as const) {
    const before = recordHash(event, digest);
    event[field] = `${event[field]}x`;
    expect([field, recordHash(event, digest)]).not.toEqual([field, before]);
    expect(canonicalEnvelope(event, digest)).toBe(canonicalJson({ ...event, payloadDigest: digest }));
  }
});

test('the HMAC of a payload is that of node:crypto, and the chain is a plain SHA-256 of 80 bytes', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 16, maxLength: 16 }),
      fc.string({ unit: 'binary' }),
      fc.uint8Array({ minLength: 32, maxLength: 32 }),
      fc.maxSafeNat(),
      fc.maxSafeNat(),
      (salt, payload, hash, seq, micros) => {
        const hmac = createHmac('sha256', salt).update(payload, 'utf8').digest('hex');
        expect(payloadDigest(Buffer.from(salt).toString('latin1'), payload)).toBe(hmac);
        const numbers = Buffer.alloc(16);
        numbers.writeBigInt64BE(BigInt(seq), 0);
        numbers.writeBigInt64BE(BigInt(micros), 8);
        const bytes = createHash('sha256').update(GENESIS).update(hash).update(numbers).digest();
        expect(chainHash(GENESIS, hash, seq, micros)).toEqual(bytes);
      },
    ),
  );
});

interface StoredRow {
  readonly run_seq: string;
  readonly us: string;
  readonly path: string;
  readonly engine_attempt: number;
  readonly logical_attempt: number;
  readonly event_id: string;
  readonly emitted_at: string;
  readonly payload: string | null;
  readonly salt: Buffer;
  readonly idempotency_key: Buffer;
  readonly record_hash: Buffer;
  readonly chain_hash: Buffer;
}

test('record hash and chain are rebuilt from the stored columns alone, with node:crypto and the general canonical form', async () => {
  const database = await createTestDatabase();
  closing.push(database.drop);
  const store = await PostgresStore.open({ url: database.url });
  closing.push(() => store.close());
  const run = sampleRun('run "ü" \u{1f680}', { tenantId: 'ten\\ant', projectId: '{p,"}', environmentId: ' e ' });
  await store.createRun(run);
  await store.append([runStarted(run)], { as: 'control' });
  const sent: RunEventWrite[] = [
    sampleEvent(run, { eventType: 'StepStarted', stepId: 'NULL', engineAttemptId: 4, logicalAttemptId: 2 }),
    sampleEvent(run, {
      eventType: 'TaskDone',
      stepId: 'é\\"{},',
      entity: 'é\\"{},/3/get:2',
      payload: { attempts: 1, result: { value: { b: [1e21, '\u0000\ud800', -0.5], a: 'ü', '': {} } } },
    }),
    sampleEvent(run, { eventType: 'StepCompleted', stepId: 'NULL', logicalAttemptId: 2, payload: {} }),
  ];
  // One alone and the others together: two paths through the append function.
  expect(await store.append(sent.slice(0, 1), { as: 'worker' })).toMatchObject({ ok: true });
  expect(await store.append(sent.slice(1), { as: 'worker' })).toMatchObject({ ok: true });
  const signal = sampleEvent(run, {
    eventType: 'SignalAccepted',
    entity: 'signal/s 1',
    payload: { signalId: 's 1', signalType: 'PAUSE' },
  });
  expect(await store.append([signal], { as: 'authorization' })).toMatchObject({ ok: true });

  const rows = await store.postgres.query<StoredRow>({
    name: 'stored_rows',
    text: `select *, (extract(epoch from persisted_at) * 1000000)::bigint::text as us from runledger.run_events order by run_seq`,
  });
  const records = await store.readEvents(run.runId);
  expect(rows).toHaveLength(6);
  let previous: Buffer = Buffer.alloc(32);
  for (const [i, row] of rows.entries()) {
    const event = [...(run.events ?? []), runStarted(run), ...sent, signal][i] as RunEventWrite;
    const place = row.path === '' ? {} : row.path.startsWith('signal/') ? { entity: row.path } : stepPlace(row.path);
    const payloadBytes = row.payload ?? '';
    const hashed = {
      eventId: row.event_id,
      eventType: event.eventType,
      emittedAt: row.emitted_at,
      runId: run.runId,
      tenantId: run.tenantId,
      projectId: run.projectId,
      environmentId: run.environmentId,
      planId: run.planId,
      planVersion: run.planVersion,
      engineAttemptId: row.engine_attempt,
      logicalAttemptId: row.logical_attempt,
      idempotencyKey: row.idempotency_key.toString('hex'),
      ...place,
      payloadDigest: createHmac('sha256', row.salt).update(payloadBytes, 'utf8').digest('hex'),
    };
    expect(row.salt).toHaveLength(16);
    const record = createHash('sha256').update(canonicalJson(hashed)).digest();
    expect(row.record_hash).toEqual(record);
    previous = chainHash(previous, record, Number(row.run_seq), Number(row.us));
    expect(row.chain_hash).toEqual(previous);
    expect(records[i]?.persistedAt).toBe(microsToText(Number(row.us)));
  }
  expect((await store.findRun(run.runId))?.chainHead).toBe(previous.toString('hex'));
  expect(new Set(rows.map((row) => row.salt.toString('hex'))).size).toBe(6);
});

function stepPlace(path: string): { stepId: string; entity?: string } {
  const slash = path.indexOf('/');
  return slash < 0 ? { stepId: path } : { stepId: path.slice(0, slash), entity: path };
}
