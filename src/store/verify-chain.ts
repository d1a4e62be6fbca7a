import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { type LedgerRecord, RunEventRecord } from '../contracts/envelope.ts';
import { Sha256Hex } from '../contracts/primitives.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { microsToText, textToMicros } from '../lib/time.ts';
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

const proofFields = {
  recordHash: Sha256Hex,
  chainHash: Sha256Hex,
  salt: Type.Optional(Type.String({ pattern: '^[0-9a-f]{32}$' })),
};
const recordFields = {
  ...RunEventRecord.properties,
  erased: Type.Optional(Type.Literal(true)),
  proof: Type.Object(proofFields, { additionalProperties: false }),
};
/** Closed: a field that the chain does not cover proves nothing and would look as if it were proven. */
const wellFormed = Compile(Type.Object(recordFields, { additionalProperties: false }));
const isDigest = Compile(Sha256Hex);

/** Checks the chain of one run from its first record on. Pure: needs no database and trusts no field. */
export function verifyChain(records: readonly unknown[], expected?: ExpectedHead): ChainReport {
  const links = records.map(parse);
  const erasures = erasureDigests(links);
  const erased: number[] = [];
  const first = links[0];
  const runId = isLink(first) ? first.record.runId : undefined;
  // The event that erased a payload may be the one that was tampered with: any other fault is named before this one.
  let unproven: ChainReport | undefined;
  let previous: Buffer = GENESIS;
  let lastSeq = 0;
  for (const [index, link] of links.entries()) {
    if (!isLink(link)) {
      return broken(index, undefined, 'malformed', `record ${index + 1} is malformed: ${link.malformed}`);
    }
    const digest = link.record.erased ? erasures.get(link.record.runSeq) : ownDigest(link.record);
    const fault = placeFault(links, index, previous, lastSeq, runId) ?? contentFault(link, index, digest);
    if (fault) return fault;
    if (digest === undefined) {
      unproven ??= broken(
        index,
        link.record.runSeq,
        'changed',
        'its payload is gone, but no PayloadErased event names it',
      );
    }
    if (link.record.erased) erased.push(link.record.runSeq);
    previous = link.chain;
    lastSeq = link.record.runSeq;
  }
  const head = { lastSeq, chainHash: previous.toString('hex') };
  return endFault(links, head, expected) ?? unproven ?? { ok: true, records: links.length, head, erased };
}

interface Link {
  readonly record: LedgerRecord;
  readonly chain: Buffer;
  readonly hash: Buffer;
  readonly micros: number;
}
interface Malformed {
  readonly malformed: string;
}

const isLink = (link: Link | Malformed | undefined): link is Link => link !== undefined && 'record' in link;

function parse(value: unknown): Link | Malformed {
  if (!wellFormed.Check(value)) {
    const [error] = wellFormed.Errors(value);
    return { malformed: `${error?.instancePath || '/'} ${error?.message ?? 'does not fit'}` };
  }
  const record = value as unknown as LedgerRecord;
  if ((record.erased === true) !== (record.proof.salt === undefined)) {
    return { malformed: 'a record is erased if and only if it has no salt' };
  }
  try {
    const micros = textToMicros(record.persistedAt);
    // The chain covers the time as a number; another spelling of it would not be noticed.
    if (microsToText(micros) !== record.persistedAt) return { malformed: '/persistedAt is not a time of the store' };
    const { recordHash: hash, chainHash: chain } = record.proof;
    return { record, chain: Buffer.from(chain, 'hex'), hash: Buffer.from(hash, 'hex'), micros };
  } catch (error) {
    return { malformed: (error as Error).message };
  }
}

const follows = (link: Link | Malformed, previous: Buffer, runSeq?: number): boolean =>
  isLink(link) && chainHash(previous, link.hash, runSeq ?? link.record.runSeq, link.micros).equals(link.chain);

/** Tells what happened to the log where a record does not follow from the one before it. */
function placeFault(
  links: readonly (Link | Malformed)[],
  index: number,
  previous: Buffer,
  lastSeq: number,
  runId: string | undefined,
): ChainReport | undefined {
  const link = links[index] as Link;
  const { runSeq } = link.record;
  if (follows(link, previous)) {
    return runSeq > lastSeq ? undefined : broken(index, runSeq, 'changed', `its number does not follow ${lastSeq}`);
  }
  const rightful = links.findIndex((other, i) => i > index && follows(other, previous));
  if (rightful > 0) {
    // It fits behind a record that comes later, and nothing else stands there: moved. Otherwise it was put in.
    const later = links.slice(index + 1).filter(isLink);
    const moved =
      later.some((other) => follows(link, other.chain)) && !later.some((other) => other.chain.equals(link.chain));
    return moved
      ? broken(index, runSeq, 'reordered', `event ${(links[rightful] as Link).record.runSeq} belongs before it`)
      : broken(index, runSeq, 'inserted', 'it is no part of the chain');
  }
  if (links.slice(0, index).some((other) => isLink(other) && other.chain.equals(link.chain))) {
    return broken(index, runSeq, 'inserted', 'it is a copy of a record before it');
  }
  if (link.record.runId !== runId) {
    return broken(index, runSeq, 'inserted', `it belongs to run ${link.record.runId}, not ${runId}`);
  }
  if (runSeq > lastSeq + 1 && !follows(link, previous, lastSeq + 1)) {
    const gap = lastSeq + 2 === runSeq ? `event ${lastSeq + 1} is` : `events ${lastSeq + 1} to ${runSeq - 1} are`;
    return broken(index, lastSeq + 1, 'removed', `${gap} missing before event ${runSeq}`);
  }
  return broken(index, runSeq, 'changed', 'its hash does not follow from the record before it');
}

/** Tells whether the fields of a record give its record hash. */
function contentFault(link: Link, index: number, digest: string | undefined): ChainReport | undefined {
  const { record } = link;
  if (record.erased && record.payload !== undefined) {
    return broken(index, record.runSeq, 'changed', 'it has a payload, but says that it was erased');
  }
  return digest === undefined || recordHash(record, digest) === record.proof.recordHash
    ? undefined
    : broken(index, record.runSeq, 'changed', 'its fields do not give its record hash');
}

function endFault(
  links: readonly (Link | Malformed)[],
  head: ExpectedHead,
  expected: ExpectedHead | undefined,
): ChainReport | undefined {
  if (!expected) return undefined;
  if (expected.lastSeq > head.lastSeq) {
    return broken(links.length, head.lastSeq + 1, 'removed', `the log should end with event ${expected.lastSeq}`);
  }
  if (expected.lastSeq < head.lastSeq) {
    const index = links.findIndex((link) => isLink(link) && link.record.runSeq > expected.lastSeq);
    const { runSeq } = (links[index] as Link).record;
    return broken(index, runSeq, 'inserted', `the log should end with event ${expected.lastSeq}`);
  }
  if (expected.chainHash === head.chainHash) return undefined;
  return broken(links.length - 1, head.lastSeq, 'changed', 'the chain does not end with the expected hash');
}

/** Digests of erased payloads stand in the events that erased them, which the chain covers too; only sound ones count. */
function erasureDigests(links: readonly (Link | Malformed)[]): ReadonlyMap<number, string> {
  const digests = new Map<number, string>();
  for (const [index, link] of links.entries()) {
    if (!isLink(link) || link.record.eventType !== 'PayloadErased') continue;
    const before = links[index - 1];
    const digest = ownDigest(link.record);
    if (digest === undefined || !isLink(before) || !follows(link, before.chain)) continue;
    if (recordHash(link.record, digest) !== link.record.proof.recordHash) continue;
    const rows = (link.record.payload as { records?: { runSeq?: unknown; payloadDigest?: unknown }[] } | undefined)
      ?.records;
    for (const row of Array.isArray(rows) ? rows : []) {
      if (typeof row?.runSeq === 'number' && isDigest.Check(row.payloadDigest)) {
        digests.set(row.runSeq, row.payloadDigest);
      }
    }
  }
  return digests;
}

function ownDigest(record: LedgerRecord): string | undefined {
  const { salt } = record.proof;
  if (salt === undefined) return undefined;
  try {
    const text = record.payload === undefined ? '' : canonicalJson(record.payload);
    return payloadDigest(Buffer.from(salt, 'hex').toString('latin1'), text);
  } catch {
    // A payload that has no canonical form was not stored like this.
    return 'none';
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
