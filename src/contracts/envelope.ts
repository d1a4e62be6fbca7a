import Type, { type Static } from 'typebox';
import { Attempt, Id, JsonObject, KeyPart, Sha256Hex, UtcTime, Uuid, UuidV4 } from './primitives.ts';

const writeFields = {
  eventId: UuidV4,
  eventType: KeyPart,
  emittedAt: UtcTime,
  runId: KeyPart,
  tenantId: Id,
  projectId: Id,
  environmentId: Id,
  planId: KeyPart,
  planVersion: KeyPart,
  engineAttemptId: Attempt,
  logicalAttemptId: Attempt,
  idempotencyKey: Sha256Hex,
  stepId: Type.Optional(KeyPart),
  entity: Type.Optional(KeyPart),
  payload: Type.Optional(JsonObject),
};

/** What a producer sends. Sequence and store time are not in it: the append authority alone assigns them. */
export const RunEventWrite = Type.Object(writeFields, { additionalProperties: false });
export type RunEventWrite = Static<typeof RunEventWrite>;

/** What the log holds. Readers tolerate fields that they do not know. */
export const RunEventRecord = Type.Object({
  ...writeFields,
  // Imported v1 events keep the id that they came with, which need not be a v4.
  eventId: Uuid,
  runSeq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  persistedAt: UtcTime,
});
export type RunEventRecord = Static<typeof RunEventRecord>;

/** A record as the store hands it out: `erased` says that there was a payload which was erased on purpose. */
export type StoredRecord = RunEventRecord & { readonly erased?: true };

/** A record of the ledger together with what proves it. The salt is erased with the payload. */
export type LedgerRecord = StoredRecord & {
  readonly proof: { readonly recordHash: string; readonly chainHash: string; readonly salt?: string };
};

/** What the append authority answers for one event. `duplicate` means that the stored event was there before. */
export interface AppendReceipt {
  readonly eventId: string;
  readonly runSeq: number;
  readonly persistedAt: string;
  readonly duplicate: boolean;
}
