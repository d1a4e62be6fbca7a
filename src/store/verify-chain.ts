import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { type LedgerRecord, RunEventRecord } from '../contracts/envelope.ts';
import { Sha256Hex } from '../contracts/primitives.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { textToMicros } from '../lib/time.ts';
import { chainHash, GENESIS, payloadDigest, recordHash } from './record-hash.ts';

/** What is known of the end of the log from elsewhere: a chain alone cannot show that its tail was cut off. */
export interface ExpectedHead {
  readonly lastSeq: number;
  readonly chainHash: string;
}

export type ChainReport =
  | { readonly ok: true; readonly records: number; readonly head: ExpectedHead; readonly erased: readonly number[] }
  | {
      readonly ok: false;
      /** The first record that is not as it was written, by position in the file and by its own number. */
      readonly index: number;
      readonly runSeq: number | undefined;
      readonly problem: 'malformed' | 'changed' | 'removed' | 'inserted' | 'reordered';
      readonly message: string;
    };

const ProofRecord = Type.Intersect([
  RunEventRecord,
  Type.Object({
    erased: Type.Optional(Type.Literal(true)),
    proof: Type.Object({
      recordHash: Sha256Hex,
      chainHash: Sha256Hex,
      salt: Type.Optional(Type.String({ pattern: '^[0-9a-f]{32}$' })),
    }),
  }),
]);
const wellFormed = Compile(ProofRecord);

/** Checks the chain of one run from its first record on. Pure: needs no database and trusts no field. */
export function verifyChain(records: readonly unknown[], expected?: ExpectedHead): ChainReport {
  const links: Link[] = [];
  for (const [index, value] of records.entries()) {
    const link = parse(value);
    if (typeof link === 'string')
      return broken(index, undefined, 'malformed', `record ${index + 1} is malformed: ${link}`);
    links.push(link);
  }
  const digests = erasureDigests(links);
  const erased: number[] = [];
  let previous: Buffer = GENESIS;
  let lastSeq = 0;
  const runId = links[0]?.record.runId;
  for (const [index, link] of links.entries()) {
    const { record } = link;
    if (record.runId !== runId)
      return broken(index, record.runSeq, 'inserted', `it belongs to run ${record.runId}, not ${runId}`);
    const misplaced = misplacement(links, index, previous, lastSeq);
    if (misplaced) return misplaced;
    const digest = digestOf(link, digests);
    if (digest === undefined) {
      return broken(index, record.runSeq, 'changed', 'its payload is gone, but no PayloadErased event names it');
    }
    if (recordHash(record, digest) !== record.proof.recordHash) {
      return broken(index, record.runSeq, 'changed', 'its fields do not give its record hash');
    }
    if (record.erased) erased.push(record.runSeq);
    previous = link.chain;
    lastSeq = record.runSeq;
  }
  const head = { lastSeq, chainHash: previous.toString('hex') };
  if (expected && (expected.lastSeq !== lastSeq || expected.chainHash !== head.chainHash)) {
    const cut = expected.lastSeq > lastSeq;
    return broken(
      links.length,
      cut ? lastSeq + 1 : lastSeq,
      cut ? 'removed' : 'changed',
      cut ? `the log should end with event ${expected.lastSeq}` : 'the chain does not end with the expected hash',
    );
  }
  return { ok: true, records: links.length, head, erased };
}

interface Link {
  readonly record: LedgerRecord;
  readonly chain: Buffer;
  readonly hash: Buffer;
  readonly micros: number;
}

function parse(value: unknown): Link | string {
  if (!wellFormed.Check(value)) {
    const [error] = wellFormed.Errors(value);
    return `${error?.instancePath || '/'} ${error?.message ?? 'does not fit'}`;
  }
  const record = value as unknown as LedgerRecord;
  try {
    return {
      record,
      chain: Buffer.from(record.proof.chainHash, 'hex'),
      hash: Buffer.from(record.proof.recordHash, 'hex'),
      micros: textToMicros(record.persistedAt),
    };
  } catch (error) {
    return (error as Error).message;
  }
}

const follows = (link: Link, previous: Buffer): boolean =>
  chainHash(previous, link.hash, link.record.runSeq, link.micros).equals(link.chain);

/** Tells what happened to the log where a record does not follow from the one before it. */
function misplacement(
  links: readonly Link[],
  index: number,
  previous: Buffer,
  lastSeq: number,
): ChainReport | undefined {
  const link = links[index] as Link;
  const { runSeq } = link.record;
  if (follows(link, previous)) {
    return runSeq > lastSeq ? undefined : broken(index, runSeq, 'changed', `its number does not follow ${lastSeq}`);
  }
  const rightful = links.findIndex((other, i) => i > index && follows(other, previous));
  if (rightful > 0) {
    // It fits behind a record that comes later: moved. It fits nowhere: put in.
    const moved = links.some((other, i) => i >= rightful && follows(link, other.chain));
    return moved
      ? broken(index, runSeq, 'reordered', `record ${links[rightful]?.record.runSeq} belongs before it`)
      : broken(index, runSeq, 'inserted', 'it is no part of the chain');
  }
  if (runSeq > lastSeq + 1) {
    const gap = lastSeq + 2 === runSeq ? `event ${lastSeq + 1} is` : `events ${lastSeq + 1} to ${runSeq - 1} are`;
    return broken(index, lastSeq + 1, 'removed', `${gap} missing before event ${runSeq}`);
  }
  return broken(index, runSeq, 'changed', 'its hash does not follow from the record before it');
}

/** Digests of erased payloads stand in the events that erased them, which the chain covers too. */
function erasureDigests(links: readonly Link[]): Map<number, string> {
  const digests = new Map<number, string>();
  for (const { record } of links) {
    if (record.eventType !== 'PayloadErased') continue;
    const rows = (record.payload as { records?: { runSeq?: unknown; payloadDigest?: unknown }[] } | undefined)?.records;
    for (const row of Array.isArray(rows) ? rows : []) {
      if (typeof row?.runSeq === 'number' && typeof row.payloadDigest === 'string')
        digests.set(row.runSeq, row.payloadDigest);
    }
  }
  return digests;
}

function digestOf(link: Link, digests: ReadonlyMap<number, string>): string | undefined {
  const { record } = link;
  if (record.proof.salt === undefined) return record.payload === undefined ? digests.get(record.runSeq) : undefined;
  try {
    const text = record.payload === undefined ? '' : canonicalJson(record.payload);
    return payloadDigest(Buffer.from(record.proof.salt, 'hex'), text);
  } catch {
    return '';
  }
}

function broken(
  index: number,
  runSeq: number | undefined,
  problem: Extract<ChainReport, { ok: false }>['problem'],
  message: string,
): ChainReport {
  return {
    ok: false,
    index,
    runSeq,
    problem,
    message: runSeq === undefined ? message : `event ${runSeq} was ${problem}: ${message}`,
  };
}
