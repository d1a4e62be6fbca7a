import type { RunEventRecord } from '../contracts/envelope.ts';
import { isObject, type JsonObject, objectOf, storedValueOf, textOf } from './payload-reader.ts';

/** Payload fields that the canonical contract names; everything else goes under `meta`. */
const NAMED: Readonly<Record<string, string>> = {
  inputs: 'inputs',
  outcome: 'outcome',
  error: 'error',
  matchedRuleIndex: 'matched_rule_index',
  action: 'action',
  mode: 'mode',
  matched: 'matched',
  selected: 'selected',
};
const STORED = Object.fromEntries(Object.entries(NAMED).map(([stored, named]) => [named, stored]));

/** How a terminal run event ended; the way back reads it. */
export const RUN_OUTCOMES: Readonly<Record<string, string>> = {
  RunCompleted: 'completed',
  RunFailed: 'failed',
  RunCancelled: 'cancelled',
};

/** What the envelope of the canonical view has no place for. */
const IDENTITY = {
  tenant_id: 'tenantId',
  project_id: 'projectId',
  environment_id: 'environmentId',
  plan_id: 'planId',
  plan_version: 'planVersion',
  logical_attempt_id: 'logicalAttemptId',
  engine_attempt_id: 'engineAttemptId',
  emitted_at: 'emittedAt',
  entity: 'entity',
} as const;

export function toCanonicalPayload(record: RunEventRecord): Record<string, unknown> {
  const top: Record<string, unknown> = {};
  const meta: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(objectOf(record.payload))) {
    const named = Object.hasOwn(NAMED, key) ? NAMED[key] : undefined;
    if (key === 'result' && placeResult(value, top, meta)) continue;
    // `outcome` names the outcome of a call; the outcome of a wait is a word and belongs to the metadata.
    if (named !== undefined && (key !== 'outcome' || isObject(value))) top[named] = value;
    else meta[key] = value;
  }
  for (const [name, field] of Object.entries(IDENTITY)) {
    if (record[field] !== undefined) meta[name] = record[field];
  }
  const outcome = RUN_OUTCOMES[record.eventType];
  if (outcome !== undefined) meta['outcome'] = outcome;
  return { ...top, meta };
}

/** A stored reference in the words of the contract: where it is, what was taken from it, a bounded preview. */
function placeResult(value: unknown, top: Record<string, unknown>, meta: Record<string, unknown>): boolean {
  const stored = storedValueOf(value);
  if (!stored || 'value' in stored) return false;
  top['result_ref'] = {
    kind: 'result_ref',
    store: stored.store,
    ref: stored.ref.uri,
    meta: {
      bytes: stored.totalBytes,
      ...(stored.ref.sha256 === undefined ? {} : { sha256: stored.ref.sha256 }),
      artifact_kind: stored.ref.kind,
      ...(stored.ref.expiresAt === undefined ? {} : { expires_at: stored.ref.expiresAt }),
    },
  };
  if (stored.extracted !== undefined) top['extracted'] = stored.extracted;
  if (stored.preview !== undefined) meta['preview'] = stored.preview;
  return true;
}

/** The stored payload that a canonical one stands for. */
export function fromCanonicalPayload(type: string, payload: JsonObject): Record<string, unknown> {
  const stored: Record<string, unknown> = {};
  const { meta, result_ref: ref, extracted, ...top } = payload;
  const { preview, ...rest } = objectOf(meta);
  for (const [key, value] of Object.entries(rest)) {
    if (Object.hasOwn(IDENTITY, key) || (key === 'outcome' && RUN_OUTCOMES[type] !== undefined)) continue;
    stored[key] = value;
  }
  for (const [key, value] of Object.entries(top))
    stored[Object.hasOwn(STORED, key) ? (STORED[key] as string) : key] = value;
  if (isObject(ref)) stored['result'] = storedResult(ref, extracted, preview);
  else if (preview !== undefined) stored['preview'] = preview;
  return stored;
}

function storedResult(ref: JsonObject, extracted: unknown, preview: unknown): Record<string, unknown> {
  const meta = objectOf(ref['meta']);
  const sha256 = textOf(meta['sha256']);
  const expiresAt = textOf(meta['expires_at']);
  return {
    ref: {
      uri: ref['ref'],
      kind: textOf(meta['artifact_kind']) ?? 'result',
      ...(sha256 === undefined ? {} : { sha256 }),
      ...(typeof meta['bytes'] === 'number' ? { sizeBytes: meta['bytes'] } : {}),
      ...(expiresAt === undefined ? {} : { expiresAt }),
    },
    store: textOf(ref['store']) ?? 'unknown',
    totalBytes: typeof meta['bytes'] === 'number' ? meta['bytes'] : 0,
    ...(isObject(extracted) ? { extracted } : {}),
    ...(preview === undefined ? {} : { preview }),
  };
}
