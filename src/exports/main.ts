export { Type } from 'typebox';
export { ALERTS, type Alert, type AlertCode } from '../contracts/alerts.ts';
export { CATALOGUE, type Emitter, type EventRow, type EventType } from '../contracts/catalogue.ts';
export type { AppendReceipt, LedgerRecord, RunEventRecord, RunEventWrite } from '../contracts/envelope.ts';
export { AppError, ERRORS, type ErrorCode } from '../contracts/errors.ts';
export type { RunSnapshot, RunStatusSnapshot, StepSnapshot } from '../contracts/snapshot.ts';
export type { RunStatus, StepStatus } from '../contracts/states.ts';
export type { ArtifactRef, EngineRunRef, PlanRef, RunContext } from '../contracts/values.ts';
export type { Caller, Engine, SignalAnswer, SignalRequest, StartOptions } from '../engines/engine.ts';
export { canonicalJson } from '../lib/canonical-json.ts';
export { idempotencyKey } from '../lib/idempotency-key.ts';
export { defineConfig, type RunledgerConfig } from '../runtime/config.ts';
export {
  createRuntime,
  type ListOptions,
  type Playbook,
  type RunSummary,
  type Runtime,
  type RuntimeOptions,
  type StartRunOptions,
} from '../runtime/create-runtime.ts';
export type { FollowOptions, Run, RunEnd, SignalDetails, SignalName } from '../runtime/run-handle.ts';
export {
  type DeclaredEffect,
  defineTool,
  type StatedFailure,
  type ToolDefinition,
  toolFailure,
} from '../tools/define-tool.ts';
export type {
  ArtifactStore,
  CallContext,
  CallPlace,
  EffectClass,
  ProposedAction,
  Reconciliation,
  Tool,
  ToolError,
  ToolOutcome,
} from '../tools/tool.ts';
export type { LogLine } from '../worker/ports.ts';
