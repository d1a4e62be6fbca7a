import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import vectors from '../../schemas/RunEvents.v2.0.1.idempotency_vectors.json' with { type: 'json' };
import { idempotencyKey, idempotencyPreimage, type KeyParts } from './idempotency-key.ts';

/** The five vectors of the contract, copied from its appendix B: the file may grow, these may not change. */
const GOLDEN = [
  '7f4b974658a54fb2aee9ecb9cefebd2eec27f3fd01f0f8c0d031dfc4a5b96e3c',
  '204197f81e5dc1a8491d8e411c440a730c51a741cd48a74863d3e5c4c452640d',
  '599945c1a8023ece5d2ae5132a4397b8cfbe9fa1c4c08d6fc4193a9bd9a2ebcd',
  'b5a178e6f30962ca3d17b573c0d4c5f96d7623be5fe62a972644785fc05a003b',
  '6bfdbe26d62eac0c00cf2683aae31115e76e4d33d515e39957627be091367b31',
];

const part = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).filter((text) => !text.includes('|'));
const parts: fc.Arbitrary<KeyParts> = fc.record(
  {
    runId: part,
    stepId: part,
    entity: part,
    logicalAttemptId: fc.integer({ min: 1, max: 2_147_483_647 }),
    eventType: part,
    planId: part,
    planVersion: part,
  },
  { requiredKeys: ['runId', 'logicalAttemptId', 'eventType', 'planId', 'planVersion'] },
);

test.each(vectors)('RE-3.1a RE-3.3a vector $name: preimage and digest', (vector) => {
  expect(idempotencyPreimage(vector)).toBe(vector.preimage);
  expect(idempotencyKey(vector)).toBe(vector.expectedSha256Hex);
});

test('RE-3.3a the file holds the five vectors of the contract and covers levels, attempts and plan versions', () => {
  expect(vectors.slice(0, 5).map((vector) => vector.expectedSha256Hex)).toEqual(GOLDEN);
  const distinct = (pick: (vector: (typeof vectors)[number]) => unknown) => new Set(vectors.map(pick)).size;
  expect(vectors.filter((vector) => vector.stepIdNormalized === 'RUN').length).toBeGreaterThan(2);
  expect(vectors.filter((vector) => vector.stepId !== undefined && vector.entity === undefined).length).toBeGreaterThan(
    2,
  );
  expect(vectors.filter((vector) => vector.entity !== undefined).length).toBeGreaterThan(2);
  expect(distinct((vector) => vector.logicalAttemptId)).toBeGreaterThan(2);
  expect(distinct((vector) => vector.planVersion)).toBeGreaterThan(2);
  expect(distinct((vector) => vector.expectedSha256Hex)).toBe(vectors.length);
});

test('RE-3.1a the key is SHA-256 over six fields in order with | between them, as lowercase hex', () => {
  fc.assert(
    fc.property(parts, (key) => {
      const place = key.entity ?? key.stepId ?? 'RUN';
      const fields = [key.runId, place, String(key.logicalAttemptId), key.eventType, key.planId, key.planVersion];
      expect(idempotencyPreimage(key)).toBe(fields.join('|'));
      expect(idempotencyPreimage(key).split('|')).toHaveLength(6);
      expect(idempotencyPreimage(key).split('|')[2]).toMatch(/^[1-9]\d*$/);
      expect(idempotencyKey(key)).toBe(createHash('sha256').update(fields.join('|'), 'utf8').digest('hex'));
      expect(idempotencyKey(key)).toMatch(/^[0-9a-f]{64}$/);
    }),
  );
});

test('RE-3.1b RE-3.3a tenant, project, environment and engine attempt do not change the key', () => {
  fc.assert(
    fc.property(parts, part, fc.nat(), (key, text, attempt) => {
      const more = { tenantId: text, projectId: text, environmentId: text, engineAttemptId: attempt, eventId: text };
      expect(idempotencyKey({ ...key, ...more })).toBe(idempotencyKey(key));
    }),
  );
});

test('RE-3.1a every one of the six fields changes the key', () => {
  fc.assert(
    fc.property(parts, (key) => {
      const changed: KeyParts[] = [
        { ...key, runId: `${key.runId}x` },
        key.entity === undefined ? { ...key, stepId: `${key.stepId ?? ''}x` } : { ...key, entity: `${key.entity}x` },
        { ...key, logicalAttemptId: key.logicalAttemptId + 1 },
        { ...key, eventType: `${key.eventType}x` },
        { ...key, planId: `${key.planId}x` },
        { ...key, planVersion: `${key.planVersion}x` },
      ];
      for (const other of changed) expect(idempotencyKey(other)).not.toBe(idempotencyKey(key));
    }),
  );
});

test('RE-3.1d strings are used verbatim: no trimming, case folding or Unicode normalisation', () => {
  const key = { runId: 'r', logicalAttemptId: 1, eventType: 'StepStarted', planId: 'p', planVersion: '1' };
  const spellings = ['caf\u00e9', 'cafe\u0301', 'Caf\u00e9', ' caf\u00e9', 'caf\u00e9 ', 'caf\u00e9\n', '\ufb01', 'fi'];
  for (const stepId of spellings) expect(idempotencyPreimage({ ...key, stepId })).toBe(`r|${stepId}|1|StepStarted|p|1`);
  expect(new Set(spellings.map((stepId) => idempotencyKey({ ...key, stepId }))).size).toBe(spellings.length);
});
