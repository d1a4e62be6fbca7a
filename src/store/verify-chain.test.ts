import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LedgerRecord } from '../contracts/envelope.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { sameJson } from '../lib/same-json.ts';
import { microsToText, textToMicros } from '../lib/time.ts';
import { sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { chainHash, GENESIS, payloadDigest, recordHash } from './record-hash.ts';
import type { EventFacts } from './stamp-event.ts';
import { type ChainReport, type ExpectedHead, verifyChain } from './verify-chain.ts';

const run = sampleRun('0d3c6a9e-4f0c-4a8e-9d5d-3d4c0f7dbb8a');

interface Draft {
  readonly facts: EventFacts;
  readonly salt: string;
  readonly micros: number;
}

/** Seals events into records as the store does. */
function seal(drafts: readonly Draft[]): LedgerRecord[] {
  let previous: Buffer = GENESIS;
  return drafts.map(({ facts, salt, micros }, i) => {
    const stamped = sampleEvent(run, facts);
    const { payload, ...event } = { ...stamped, eventId: `00000000-0000-4000-8000-${String(i).padStart(12, '0')}` };
    const text = payload === undefined ? '' : canonicalJson(payload);
    const hash = recordHash(event, payloadDigest(Buffer.from(salt, 'hex').toString('latin1'), text));
    previous = chainHash(previous, Buffer.from(hash, 'hex'), i + 1, micros);
    return {
      ...event,
      ...(payload === undefined ? {} : { payload }),
      runSeq: i + 1,
      persistedAt: microsToText(micros),
      proof: { recordHash: hash, chainHash: previous.toString('hex'), salt },
    };
  });
}

/** Erases some records of drafts, with a PayloadErased event at the end that names them. */
function sealErased(drafts: readonly Draft[], seqs: readonly number[]): LedgerRecord[] {
  const records = seal(drafts);
  const digests = seqs.map((runSeq) => {
    const { payload, proof } = records[runSeq - 1] as LedgerRecord;
    const text = payload === undefined ? '' : canonicalJson(payload);
    return { runSeq, payloadDigest: payloadDigest(Buffer.from(proof.salt ?? '', 'hex').toString('latin1'), text) };
  });
  const last = drafts.at(-1) as Draft;
  const eraser = {
    facts: { eventType: 'PayloadErased', payload: { records: digests, reason: 'asked for' } },
    salt: 'ab'.repeat(16),
    micros: last.micros,
  };
  const all = seal([...drafts, eraser]).map((record, i) =>
    i < records.length ? (records[i] as LedgerRecord) : record,
  );
  return all.map((record) => (seqs.includes(record.runSeq) ? eraseRecord(record) : record));
}

function eraseRecord({ payload: _payload, proof, ...rest }: LedgerRecord): LedgerRecord {
  return { ...rest, erased: true, proof: { recordHash: proof.recordHash, chainHash: proof.chainHash } };
}

const facts: fc.Arbitrary<EventFacts> = fc.oneof(
  fc.record({ eventType: fc.constant('RunPaused'), logicalAttemptId: fc.integer({ min: 1, max: 9 }) }),
  fc.record({ eventType: fc.constant('StepStarted'), stepId: fc.constantFrom('a', 'é', 'b#2') }),
  fc.record({
    eventType: fc.constant('TaskDone'),
    stepId: fc.constant('a'),
    entity: fc.constantFrom('a/get:1', 'a/3/get:2'),
    payload: fc.record({
      attempts: fc.constant(1),
      result: fc.record({ value: fc.jsonValue({ maxDepth: 2 }) }),
    }),
  }),
);
const start = textToMicros('2026-02-11T10:30:00.000000Z');
const drafts = (min: number): fc.Arbitrary<Draft[]> =>
  fc
    .array(fc.record({ facts, salt: fc.uint8Array({ minLength: 16, maxLength: 16 }), pause: fc.nat(2_000_000) }), {
      minLength: min,
      maxLength: 8,
    })
    .map((items) => {
      let micros = start;
      return items.map(({ facts, salt, pause }) => {
        micros += pause;
        return { facts, salt: Buffer.from(salt).toString('hex'), micros };
      });
    });
/** Logs with and without erased records. */
const log = (min: number): fc.Arbitrary<LedgerRecord[]> =>
  fc.oneof(
    drafts(min).map(seal),
    drafts(Math.max(min, 2)).chain((items) =>
      fc
        .subarray(
          items.map((_, i) => i + 1),
          { minLength: 1 },
        )
        .map((seqs) => sealErased(items, seqs)),
    ),
  );

const headOf = (records: readonly LedgerRecord[]): ExpectedHead => ({
  lastSeq: records.length,
  chainHash: records.at(-1)?.proof.chainHash ?? '0'.repeat(64),
});
const place = (report: ChainReport) => (report.ok ? 'sound' : [report.index, report.problem]);

test('an untouched log verifies, also without payloads that were erased, and gives its head', () => {
  fc.assert(
    fc.property(log(0), (records) => {
      const erased = records.filter((record) => record.erased).map((record) => record.runSeq);
      const expected = { ok: true, records: records.length, head: headOf(records), erased };
      expect(verifyChain(records)).toEqual(expected);
      expect(verifyChain(JSON.parse(JSON.stringify(records)) as unknown[], headOf(records))).toEqual(expected);
    }),
  );
});

test('every change of a single byte of an exported log is found, and the changed record is the one that is named', () => {
  fc.assert(
    fc.property(log(1), fc.nat(), fc.nat(), fc.integer({ min: 1, max: 255 }), (records, which, where, flip) => {
      const index = which % records.length;
      const bytes = Buffer.from(JSON.stringify(records[index]));
      const at = where % bytes.length;
      bytes[at] = (bytes[at] as number) ^ flip;
      let changed: unknown;
      try {
        changed = JSON.parse(bytes.toString('utf8'));
      } catch {
        // A file that is no JSON any more cannot be taken for the log.
        return;
      }
      const report = verifyChain(records.with(index, changed as LedgerRecord));
      // Upper-case hex in an escape, E for e, or a last digit that makes the same number: the record in another spelling.
      if (sameJson(changed, records[index])) {
        expect(report.ok).toBe(true);
        return;
      }
      expect(report).toMatchObject({ ok: false, index });
      expect(report.ok || ['changed', 'malformed'].includes(report.problem)).toBe(true);
    }),
    { numRuns: 3000 },
  );
});

test('every change of any one field is found, whatever it is changed to', () => {
  const value = fc.oneof(fc.jsonValue(), fc.constantFrom('', '0'.repeat(64), 'ff'.repeat(16), 1, 2, true, undefined));
  fc.assert(
    fc.property(log(1), fc.nat(), fc.nat(), value, (records, which, field, other) => {
      const index = which % records.length;
      const record = structuredClone(records[index]) as unknown as Record<string, unknown>;
      const proof = record['proof'] as Record<string, unknown>;
      const keys = [...Object.keys(record).filter((key) => key !== 'proof'), 'payload', 'erased', 'extra'];
      const proofKeys = ['recordHash', 'chainHash', 'salt', 'extra'];
      const at = field % (keys.length + proofKeys.length);
      if (at < keys.length) record[keys[at] as string] = other;
      else proof[proofKeys[at - keys.length] as string] = other;
      const changed = JSON.parse(JSON.stringify(record)) as unknown;
      fc.pre(!sameJson(changed, JSON.parse(JSON.stringify(records[index]))));
      const report = verifyChain(records.with(index, changed as LedgerRecord));
      expect(report).toMatchObject({ ok: false, index });
    }),
    { numRuns: 2000 },
  );
});

test('a record that is missing is named by its number, wherever it was', () => {
  fc.assert(
    fc.property(log(2), fc.nat(), (records, which) => {
      const index = which % records.length;
      const rest = records.toSpliced(index, 1);
      const report = verifyChain(rest, headOf(records));
      expect(report).toMatchObject({ ok: false, index, runSeq: index + 1, problem: 'removed' });
    }),
  );
});

test('a tail that was cut off is found only by the expected head', () => {
  fc.assert(
    fc.property(drafts(1).map(seal), fc.nat(), (records, which) => {
      const kept = records.slice(0, which % records.length);
      expect(verifyChain(kept)).toMatchObject({ ok: true });
      const cut = { ok: false, index: kept.length, runSeq: kept.length + 1, problem: 'removed' };
      expect(verifyChain(kept, headOf(records))).toMatchObject(cut);
      // And the other way round: more records than there should be.
      const longer = verifyChain(records, headOf(kept));
      expect(longer).toMatchObject({ ok: false, index: kept.length, problem: 'inserted' });
    }),
  );
});

test('a record that was put in is named, be it a copy, a forgery or one of another run', () => {
  const foreign = seal([
    { facts: { eventType: 'RunPaused' }, salt: '00'.repeat(16), micros: start },
  ])[0] as LedgerRecord;
  fc.assert(
    fc.property(log(2), fc.nat(), fc.nat(), fc.nat(2), (records, from, to, kind) => {
      const copy = records[from % records.length] as LedgerRecord;
      const index = 1 + (to % (records.length - 1));
      const proof = { ...copy.proof, recordHash: 'ee'.repeat(32) };
      const forged = { ...copy, runSeq: index + 1, eventId: '5f0c3b1e-0000-4000-8000-000000000000', proof };
      const inserted = [copy, forged, { ...foreign, runId: 'another' }][kind] as LedgerRecord;
      const report = verifyChain(records.toSpliced(index, 0, inserted));
      // A copy right behind or before itself: either of the two may be called the copy.
      const twin = kind === 0 && (from % records.length === index || from % records.length === index - 1);
      const at = twin ? expect.toSatisfy((i: number) => Math.abs(i - index) <= 1) : index;
      expect(report).toMatchObject({ ok: false, index: at, problem: 'inserted' });
    }),
  );
});

test('records in another order are found at the first that is out of place', () => {
  fc.assert(
    fc.property(log(3), fc.nat(), fc.nat(), (records, a, b) => {
      const [i, j] = [a % records.length, b % records.length].sort((x, y) => x - y) as [number, number];
      fc.pre(i !== j);
      const swapped = records.with(i, records[j] as LedgerRecord).with(j, records[i] as LedgerRecord);
      expect(place(verifyChain(swapped))).toEqual([i, 'reordered']);
      const moved = records.toSpliced(i, 1).toSpliced(j, 0, records[i] as LedgerRecord);
      expect(place(verifyChain(moved))).toEqual([i, 'reordered']);
    }),
  );
});

test('the first of several faults is the one that is named', () => {
  fc.assert(
    fc.property(drafts(4).map(seal), fc.nat(), fc.nat(), fc.boolean(), (records, a, b, malformed) => {
      const [i, j] = [a % records.length, b % records.length].sort((x, y) => x - y) as [number, number];
      fc.pre(i !== j);
      const late = malformed ? null : { ...records[j], tenantId: 'x' };
      const changed = records.with(i, { ...(records[i] as LedgerRecord), planId: 'x' }).with(j, late as LedgerRecord);
      expect(place(verifyChain(changed))).toEqual([i, 'changed']);
    }),
  );
});

test('a payload that is gone without an event that says so, or with a forged one, is found', () => {
  const item = (n: number): Draft => ({
    facts: { eventType: 'TaskDone', stepId: 'a', entity: `a/get:${n}`, payload: { attempts: n } },
    salt: String(n).repeat(32),
    micros: start + n,
  });
  const records = seal([item(1), item(2), item(3)]);
  expect(place(verifyChain(records.with(1, eraseRecord(records[1] as LedgerRecord))))).toEqual([1, 'changed']);
  const erased = sealErased([item(1), item(2), item(3)], [2]);
  expect(verifyChain(erased)).toMatchObject({ ok: true, erased: [2] });
  // The digest of the erased payload is changed in the event that holds it: that event was changed, not the erased one.
  const eraser = structuredClone(erased[3]) as LedgerRecord;
  (eraser.payload as { records: { payloadDigest: string }[] }).records[0]!.payloadDigest = '0'.repeat(64);
  expect(place(verifyChain(erased.with(3, eraser)))).toEqual([3, 'changed']);
  // The payload is put back beside the claim that it was erased.
  const restored = { ...(erased[1] as LedgerRecord), payload: { attempts: 2 } };
  expect(place(verifyChain(erased.with(1, restored)))).toEqual([1, 'changed']);
  const unnamed = { ...(erased[2] as LedgerRecord), erased: true as const };
  expect(place(verifyChain(erased.with(2, unnamed)))).toEqual([2, 'malformed']);
});

test('what is no record at all is malformed, and its place is named', () => {
  const records = seal([{ facts: { eventType: 'RunPaused' }, salt: '00'.repeat(16), micros: start }]);
  for (const value of [null, undefined, 7, 'text', [], {}, { proof: {} }, { ...records[0], note: 'approved' }]) {
    expect(verifyChain([records[0], value])).toMatchObject({ ok: false, index: 1, problem: 'malformed' });
  }
  const otherSpelling = { ...(records[0] as LedgerRecord), persistedAt: '2026-02-11T10:30:00Z' };
  expect(place(verifyChain([otherSpelling]))).toEqual([0, 'malformed']);
});
