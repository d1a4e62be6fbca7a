import type { RunEventWrite } from '../contracts/envelope.ts';
import { quote as text } from '../lib/canonical-json.ts';
import { hmacSha256Hex, sha256, sha256Hex } from '../lib/hash.ts';

/**
 * The formats of the hash chain. They are permanent: a log written today must verify with every later version.
 *
 * payloadDigest = HMAC-SHA-256(salt, payload bytes), hex; an absent payload counts as no bytes.
 * recordHash    = SHA-256 of the canonical JSON of the envelope in which payload is replaced by payloadDigest.
 * chainHash     = SHA-256(previous chainHash, recordHash, runSeq as int8, persistedAt as int8 microseconds), raw bytes,
 *                 big-endian; the first record follows 32 zero bytes.
 */
export const GENESIS: Buffer = Buffer.alloc(32);

/** The salt is a string of 16 characters, one per byte: a buffer for each event would be work for the garbage collector. */
export function payloadDigest(salt: string, payload: string): string {
  return hmacSha256Hex(salt, payload);
}

/** The fields of the envelope that the record hash covers, with names in canonical order. */
export type HashedEnvelope = Omit<RunEventWrite, 'payload'>;

/** Written out because it runs for every event; a test compares it with the general canonical form. */
export function canonicalEnvelope(e: HashedEnvelope, digest: string): string {
  const run = runText(e);
  const entity = e.entity === undefined ? '' : `"entity":${text(e.entity)},`;
  const stepId = e.stepId === undefined ? '' : `"stepId":${text(e.stepId)},`;
  return (
    `{"emittedAt":${text(e.emittedAt)},"engineAttemptId":${e.engineAttemptId},${entity}${run.environment}` +
    `"eventId":${text(e.eventId)},"eventType":${text(e.eventType)},"idempotencyKey":${text(e.idempotencyKey)},` +
    `"logicalAttemptId":${e.logicalAttemptId},"payloadDigest":"${digest}",${run.plan}${stepId}${run.tenant}`
  );
}

/** What is the same in every event of a run, already as text. */
interface RunText {
  readonly of: Pick<HashedEnvelope, 'planId' | 'planVersion' | 'tenantId' | 'projectId' | 'environmentId'>;
  readonly environment: string;
  readonly plan: string;
  readonly tenant: string;
}

const runTexts = new Map<string, RunText>();
const MAX_RUN_TEXTS = 4096;

function runText(e: HashedEnvelope): RunText {
  const known = runTexts.get(e.runId);
  if (
    known &&
    known.of.planId === e.planId &&
    known.of.planVersion === e.planVersion &&
    known.of.tenantId === e.tenantId &&
    known.of.projectId === e.projectId &&
    known.of.environmentId === e.environmentId
  ) {
    return known;
  }
  const { planId, planVersion, tenantId, projectId, environmentId } = e;
  const fresh: RunText = {
    // A copy: the event itself may be changed by its owner, and would keep its payload in memory here.
    of: { planId, planVersion, tenantId, projectId, environmentId },
    environment: `"environmentId":${text(e.environmentId)},`,
    plan: `"planId":${text(e.planId)},"planVersion":${text(e.planVersion)},"projectId":${text(e.projectId)},"runId":${text(e.runId)},`,
    tenant: `"tenantId":${text(e.tenantId)}}`,
  };
  if (runTexts.size >= MAX_RUN_TEXTS) runTexts.clear();
  runTexts.set(e.runId, fresh);
  return fresh;
}

export function recordHash(envelope: HashedEnvelope, digest: string): string {
  return sha256Hex(canonicalEnvelope(envelope, digest));
}

export function chainHash(previous: Uint8Array, record: Uint8Array, runSeq: number, persistedMicros: number): Buffer {
  const bytes = Buffer.allocUnsafe(80);
  bytes.set(previous, 0);
  bytes.set(record, 32);
  bytes.writeBigInt64BE(BigInt(runSeq), 64);
  bytes.writeBigInt64BE(BigInt(persistedMicros), 72);
  return sha256(bytes);
}
