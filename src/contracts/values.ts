import Type, { type Static, type TProperties } from 'typebox';
import { Count, Id, Json, JsonObject, KeyPart, Sha256Hex, Text, UtcTime } from './primitives.ts';

/** Shapes that stand inside events, snapshots and the API. */
export const closed = <T extends TProperties>(properties: T) =>
  Type.Object(properties, { additionalProperties: false });

export const ENGINES = ['temporal', 'conductor', 'native', 'mock'] as const;
export type EngineName = (typeof ENGINES)[number];
export const EngineType = Type.Enum([...ENGINES]);

export const TRIGGER_SOURCES = ['manual', 'schedule', 'webhook', 'api'] as const;

export const ErrorInfo = closed({
  category: Type.String({ minLength: 1, maxLength: 128 }),
  code: Type.String({ minLength: 1, maxLength: 128 }),
  message: Text,
  retryable: Type.Boolean(),
});
export type ErrorInfo = Static<typeof ErrorInfo>;

export const ArtifactRef = closed({
  uri: Type.String({ minLength: 1, maxLength: 4096 }),
  kind: Id,
  sha256: Type.Optional(Sha256Hex),
  sizeBytes: Type.Optional(Count),
  expiresAt: Type.Optional(UtcTime),
});
export type ArtifactRef = Static<typeof ArtifactRef>;

export const PlanRef = closed({
  uri: Type.String({ minLength: 1, maxLength: 4096 }),
  sha256: Sha256Hex,
  schemaVersion: Type.String({ pattern: '^v\\d+\\.\\d+$' }),
  planId: KeyPart,
  planVersion: KeyPart,
  sizeBytes: Type.Optional(Count),
  expiresAt: Type.Optional(UtcTime),
});
export type PlanRef = Static<typeof PlanRef>;

/** Where a run lives inside its engine. `runId` is always our own; the provider's id is `providerRunId`. */
export const EngineRunRef = Type.Union([
  closed({
    provider: Type.Literal('temporal'),
    namespace: Id,
    workflowId: Id,
    runId: KeyPart,
    providerRunId: Type.Optional(Id),
    taskQueue: Type.Optional(Id),
  }),
  closed({
    provider: Type.Literal('conductor'),
    conductorUrl: Id,
    workflowId: Id,
    runId: KeyPart,
    providerRunId: Type.Optional(Id),
  }),
  closed({
    provider: Type.Enum(['native', 'mock']),
    workflowId: Id,
    runId: KeyPart,
    providerRunId: Type.Optional(Id),
  }),
]);
export type EngineRunRef = Static<typeof EngineRunRef>;

/** The context of RunStarted: who and where, as the seed gives it. */
export const EventContext = closed({
  tenantId: Id,
  projectId: Id,
  environmentId: Id,
  triggeredBy: Type.Optional(Id),
  triggerSource: Type.Optional(Type.Enum([...TRIGGER_SOURCES])),
});
export type EventContext = Static<typeof EventContext>;

/** What startRun takes beside the PlanRef. The adapter is concrete: it is chosen before. */
export const RunContext = closed({
  tenantId: Id,
  projectId: Id,
  environmentId: Id,
  runId: KeyPart,
  targetAdapter: EngineType,
});
export type RunContext = Static<typeof RunContext>;

/** The outcome of a tool call in the words of the language, small enough for the log. */
export const Outcome = Type.Object(
  {
    status: Type.Enum(['ok', 'error']),
    error: Type.Optional(
      Type.Object({
        kind: Type.String({ maxLength: 128 }),
        code: Type.Optional(Type.String({ maxLength: 128 })),
        message: Type.Optional(Text),
        retryable: Type.Boolean(),
      }),
    ),
    meta: Type.Optional(Type.Object({ duration_ms: Type.Optional(Count), http_status: Type.Optional(Type.Integer()) })),
  },
  { additionalProperties: true },
);
export type Outcome = Static<typeof Outcome>;

/** A result in the log: the value itself, or where it is, the fields taken from it, and a bounded preview. */
export const StoredValue = Type.Union([
  closed({ value: Json }),
  closed({
    ref: ArtifactRef,
    store: Id,
    totalBytes: Count,
    extracted: Type.Optional(JsonObject),
    preview: Type.Optional(Json),
  }),
]);
export type StoredValue = Static<typeof StoredValue>;

/** What a step yields to the engine. */
export const StepOutput = closed({
  status: Type.Enum(['SUCCESS', 'FAILED', 'SKIPPED']),
  artifactRefs: Type.Array(ArtifactRef),
  error: Type.Optional(ErrorInfo),
});
export type StepOutput = Static<typeof StepOutput>;
