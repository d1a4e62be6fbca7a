import type { LedgerRecord } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import { isTerminal } from '../contracts/states.ts';
import type { ErrorInfo, StoredValue } from '../contracts/values.ts';
import { closestName } from '../lib/closest-name.ts';
import type { PostgresStore } from '../store/postgres-store.ts';

const END_TYPES = ['RunCompleted', 'RunFailed', 'RunCancelled'];
const PAGE = 1000;

/** The events of a run in order, then new ones as they come. Gives whether the run has ended, or the signal aborted before. */
export async function* followToEnd(
  store: PostgresStore,
  runId: string,
  options: { readonly afterSeq?: number; readonly signal?: AbortSignal } = {},
): AsyncGenerator<LedgerRecord, boolean> {
  let lastSeq = await endedAt(store, runId);
  if (lastSeq !== undefined && (options.afterSeq ?? 0) >= lastSeq) return true;
  for await (const record of store.follow(runId, options)) {
    yield record;
    // What follows an end, such as a refused signal, is only there where the run had ended before.
    if (END_TYPES.includes(record.eventType) && lastSeq === undefined) return true;
    if (lastSeq !== undefined && record.runSeq >= lastSeq) {
      lastSeq = await endedAt(store, runId);
      if (lastSeq !== undefined && record.runSeq >= lastSeq) return true;
    }
  }
  return false;
}

async function endedAt(store: PostgresStore, runId: string): Promise<number | undefined> {
  const run = await store.findRun(runId);
  if (!run) throw new AppError('RUN_NOT_FOUND', `There is no run ${runId}`, { runId });
  return run.status !== undefined && isTerminal(run.status) ? run.lastSeq : undefined;
}

/** The event that ended the run. Waits for it; undefined when the signal came first. */
export async function endOf(
  store: PostgresStore,
  runId: string,
  signal?: AbortSignal,
): Promise<LedgerRecord | undefined> {
  const run = await store.findRun(runId);
  if (!run) throw new AppError('RUN_NOT_FOUND', `There is no run ${runId}`, { runId });
  if (run.status !== undefined && isTerminal(run.status)) {
    const [end] = await store.readEvents(runId, { types: END_TYPES, limit: 1 });
    return end;
  }
  const options = { afterSeq: run.lastSeq, ...(signal ? { signal } : {}) };
  for await (const record of store.follow(runId, options)) if (END_TYPES.includes(record.eventType)) return record;
  return undefined;
}

/** What an ending event says of the failure, with the step that it began in. */
export function failureOf({ payload }: LedgerRecord): (ErrorInfo & { readonly stepId?: string }) | undefined {
  const root = payload?.['rootCause'] as { stepId?: string; error: ErrorInfo } | undefined;
  const error = root?.error ?? (payload?.['error'] as ErrorInfo | undefined);
  if (!error) return undefined;
  return { ...error, ...(root?.stepId === undefined ? {} : { stepId: root.stepId }) };
}

/** The result of a run, or of a step: of its newest instance where the name has no number. */
export async function storedResult(store: PostgresStore, runId: string, step?: string): Promise<StoredValue> {
  const types = step === undefined ? ['RunCompleted'] : ['StepCompleted', 'StepCarried', 'StepFailed', 'LoopDone'];
  let found: StoredValue | undefined;
  const steps = new Set<string>();
  for (let afterSeq = 0; ; ) {
    const page = await store.readEvents(runId, { afterSeq, types, limit: PAGE });
    for (const { stepId, payload, runSeq } of page) {
      afterSeq = runSeq;
      if (stepId !== undefined) steps.add(stepId);
      const isIt = step === undefined || stepId === step || stepId?.startsWith(`${step}#`);
      if (isIt) found = (payload?.['result'] as StoredValue | undefined) ?? found;
    }
    if (page.length < PAGE) break;
  }
  if (found) return found;
  const short = runId.slice(0, 8);
  if (step === undefined) {
    const { status = 'PENDING' } = (await store.findRun(runId)) ?? {};
    throw new AppError('RESULT_NOT_FOUND', `Run ${short} is ${status} and has no result.`, { runId });
  }
  const near = steps.has(step) ? undefined : closestName(step, steps);
  const advice = near === undefined ? '.' : `; did you mean '${near}'?`;
  throw new AppError('RESULT_NOT_FOUND', `Run ${short} has no result of a step '${step}'${advice}`, { runId, step });
}
