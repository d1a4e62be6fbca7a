import { Compile } from 'typebox/compile';
import { AppError } from '../contracts/errors.ts';
import type { Task } from '../contracts/plan.ts';
import { ArtifactRef } from '../contracts/values.ts';
import type { TaskOutcome } from '../kernel/pipeline-scope.ts';
import type { ArtifactStore, ToolOutcome } from '../tools/tool.ts';
import { storeResult } from './store-result.ts';

/** A tool's outcome as the log and the templates have it: redacted, bounded, large results outside. */
export async function toTaskOutcome(
  artifacts: ArtifactStore,
  clean: ToolOutcome,
  task: Task,
  millis: number,
): Promise<TaskOutcome> {
  const { meta, http, pg, py } = clean;
  const made = refsOf(meta?.['artifacts']);
  const rest = {
    meta: {
      ...meta,
      ...(made ? { artifacts: made } : {}),
      duration_ms: Math.round(millis),
      ...(http ? { http_status: http.status } : {}),
    },
    ...(http ? { http } : {}),
    ...(pg ? { pg } : {}),
    ...(py ? { py } : {}),
  };
  const value = clean.result;
  const result =
    value === undefined && clean.status === 'error' ? undefined : await storeResult(artifacts, value, task.result);
  if (clean.status === 'ok') return { status: 'ok', ...rest, ...(result ? { result } : {}) };
  const { kind, code, message, retryable, retryAfterMs } = clean.error;
  const error = {
    kind: kind.slice(0, 128),
    code: code.slice(0, 128),
    message: message.slice(0, 8192),
    retryable,
    ...(retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs }),
  };
  return { status: 'error', error, ...rest, ...(result ? { result } : {}) };
}

const refCheck = Compile(ArtifactRef);

/** What a tool says that it has stored, without what is no reference: the log would not take it. */
function refsOf(said: unknown): ArtifactRef[] | undefined {
  return Array.isArray(said) ? said.filter((ref): ref is ArtifactRef => refCheck.Check(ref)).slice(0, 1000) : undefined;
}

/** What the destination asked for wins over a shorter backoff. */
export function retryAfterOf(outcome: TaskOutcome): number | undefined {
  const asked = (outcome.error as { retry_after_ms?: unknown } | undefined)?.retry_after_ms;
  return typeof asked === 'number' ? asked : undefined;
}

const KINDS: Partial<Record<string, string>> = {
  TOOL_UNAVAILABLE: 'tool',
  TASK_TIMEOUT: 'timeout',
  STEP_TIMEOUT: 'timeout',
};

/** What a tool threw is its defect; no stack trace leaves the worker. */
export function thrownError(thrown: unknown): Extract<ToolOutcome, { status: 'error' }>['error'] {
  if (thrown instanceof AppError) {
    const isTemplate = thrown.code.startsWith('TEMPLATE_');
    const kind = isTemplate ? 'template' : (KINDS[thrown.code] ?? 'input');
    return { kind, code: thrown.code, message: thrown.message, retryable: thrown.retryable };
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { kind: 'internal', code: 'INTERNAL', message, retryable: false };
}
