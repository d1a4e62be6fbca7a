import { withoutPlace } from '../compiler/locate-error.ts';
import type { RunEventRecord } from '../contracts/envelope.ts';
import type { RunStatus } from '../contracts/states.ts';
import type { ErrorInfo, PlanRef, StoredValue } from '../contracts/values.ts';
import { parseEntity } from '../kernel/entity-path.ts';
import { RunWrites } from './run-writes.ts';

export type StepMark = 'waiting' | 'running' | 'done' | 'failed' | 'skipped';

export interface StepLine {
  readonly stepId: string;
  mark: StepMark;
  attempt: number;
  /** How often its task was called, where a policy calls it again. */
  tries: number;
  /** By the clock of whoever wrote the events. */
  startedAt: number | undefined;
  durationMs: number | undefined;
  loop: { count: number | undefined; ended: number; failed: number } | undefined;
  /** Writes that a receipt stood for, and the run that has it. */
  reused: { count: number; runId: string } | undefined;
  /** A word about what it waits for, why it was skipped, or what went wrong. */
  note: string | undefined;
  /** Runs that the step started. */
  readonly children: RunTree[];
}

export type Locate = (message: string, planRef: PlanRef) => string;

type Payload = Readonly<Record<string, unknown>>;

/** The same with the place that people know in the messages of its errors. */
export function located(payload: Payload, planRef: PlanRef | undefined, locate: Locate | undefined): Payload {
  const { error, rootCause } = payload as { error?: ErrorInfo; rootCause?: { error: ErrorInfo } };
  if (error === undefined || !locate || !planRef) return payload;
  const found = (info: ErrorInfo): ErrorInfo => {
    const { code, message } = info;
    // What a child says is about a place in its own plan, and stands at its own step.
    return { ...info, message: code === 'CHILD_RUN_FAILED' ? withoutPlace(message) : locate(message, planRef) };
  };
  return {
    ...payload,
    error: found(error),
    ...(rootCause === undefined ? {} : { rootCause: { ...rootCause, error: found(rootCause.error) } }),
  };
}

/** A run as a terminal shows it, built from its events in order. */
export class RunTree {
  readonly runId: string;
  /** The iteration that started it, where a loop did. */
  readonly index: number | undefined;
  readonly steps = new Map<string, StepLine>();
  status: RunStatus | undefined;
  planRef: PlanRef | undefined;
  startedAt: number | undefined;
  endedAt: number | undefined;
  result: StoredValue | undefined;
  error: (ErrorInfo & { stepId?: string }) | undefined;
  handledFailures = 0;
  lastSeq = 0;
  readonly writes = new RunWrites();

  /** Puts the place in the playbook into a message that names one in the plan. */
  readonly #locate: Locate | undefined;

  constructor(runId: string, locate?: Locate, index?: number) {
    this.runId = runId;
    this.index = index;
    this.#locate = locate;
  }

  /** Takes an event; gives the step that it is about, and a run that the step has started. */
  take(event: RunEventRecord): { readonly step?: StepLine; readonly child?: RunTree } {
    this.lastSeq = event.runSeq;
    const payload = located(event.payload ?? {}, this.planRef, this.#locate);
    const at = Date.parse(event.emittedAt);
    if (event.stepId === undefined) {
      this.#takeRun(event.eventType, payload, at);
      return {};
    }
    const step = this.#step(event.stepId);
    this.writes.take(event, payload);
    const { childRunId } = takeStep(step, event, payload, at);
    if (childRunId === undefined) return { step };
    const child = new RunTree(childRunId, this.#locate, parseEntity(event.entity ?? '')?.iteration);
    step.children.push(child);
    return { step, child };
  }

  #step(stepId: string): StepLine {
    let step = this.steps.get(stepId);
    if (!step) {
      step = {
        stepId,
        mark: 'waiting',
        attempt: 1,
        tries: 1,
        startedAt: undefined,
        durationMs: undefined,
        loop: undefined,
        reused: undefined,
        note: undefined,
        children: [],
      };
      this.steps.set(stepId, step);
    }
    return step;
  }

  #takeRun(type: string, payload: Payload, at: number): void {
    switch (type) {
      case 'PlaybookExecutionRequested':
        this.status = 'PENDING';
        this.startedAt = at;
        this.planRef = payload['planRef'] as PlanRef | undefined;
        return;
      case 'RunStarted':
      case 'RunResumed':
        this.status = 'RUNNING';
        return;
      case 'RunPaused':
        this.status = 'PAUSED';
        return;
      case 'RunCompleted':
        this.status = 'COMPLETED';
        this.result = payload['result'] as StoredValue | undefined;
        this.handledFailures = ((payload['handledFailures'] as unknown[] | undefined) ?? []).length;
        break;
      case 'RunFailed': {
        this.status = 'FAILED';
        const cause = payload['rootCause'] as { stepId?: string; error: ErrorInfo } | undefined;
        const error = cause?.error ?? (payload['error'] as ErrorInfo | undefined);
        if (error) this.error = { ...error, ...(cause?.stepId === undefined ? {} : { stepId: cause.stepId }) };
        break;
      }
      case 'RunCancelled':
        this.status = 'CANCELLED';
        break;
      default:
        return;
    }
    this.endedAt = at;
  }
}

function takeStep(step: StepLine, event: RunEventRecord, payload: Payload, at: number): { childRunId?: string } {
  const end = (mark: StepMark): void => {
    step.mark = mark;
    const said = payload['durationMs'];
    step.durationMs = typeof said === 'number' ? said : step.startedAt === undefined ? undefined : at - step.startedAt;
    // A loop's own event has no time of its own, and a step that waited for a run counts its last turn only.
    const isLong = step.loop !== undefined || step.children.length > 0;
    if (isLong && step.startedAt !== undefined) step.durationMs = at - step.startedAt;
  };
  const errorOf = (): ErrorInfo | undefined => payload['error'] as ErrorInfo | undefined;
  switch (event.eventType) {
    case 'StepScheduled':
      step.mark = 'waiting';
      step.attempt = event.logicalAttemptId;
      step.tries = 1;
      step.note = undefined;
      step.loop = undefined;
      break;
    case 'StepStarted':
      step.mark = 'running';
      step.startedAt = at;
      break;
    case 'StepCompleted':
      step.note = reusedNote(step, event.runId);
      end('done');
      break;
    case 'StepCarried':
      step.mark = payload['status'] === 'SUCCESS' ? 'done' : payload['status'] === 'FAILED' ? 'failed' : 'skipped';
      step.note = 'kept from the run before';
      break;
    case 'StepFailed': {
      const error = errorOf();
      step.note = error && `${error.code}: ${error.message}`;
      end('failed');
      break;
    }
    case 'StepSkipped':
      step.mark = 'skipped';
      step.note = `skipped: ${String(payload['reason'] ?? '')}`;
      break;
    case 'StepDelayed':
      step.mark = 'waiting';
      step.note =
        payload['reason'] === 'RETRY' ? `tries again: ${errorOf()?.code ?? ''}` : String(payload['reason'] ?? '');
      break;
    case 'LoopStarted': {
      const count = payload['count'] as number | undefined;
      const finished = ((payload['finished'] as unknown[] | undefined) ?? []).length;
      step.loop = { count, ended: finished, failed: 0 };
      break;
    }
    case 'LoopIterationDone':
    case 'LoopIterationFailed':
      step.loop ??= { count: undefined, ended: 0, failed: 0 };
      step.loop.ended++;
      if (event.eventType === 'LoopIterationFailed') step.loop.failed++;
      break;
    case 'TaskAttemptStarted':
    case 'TaskDone':
    case 'TaskFailed':
      // Iterations have tries of their own, and there are too many of them to show.
      if (!step.loop) step.tries = Math.max(step.tries, Number(payload['attempt'] ?? payload['attempts'] ?? 1));
      break;
    case 'EffectSucceeded': {
      const { runId } = (payload['cachedFrom'] ?? {}) as { runId?: string };
      if (runId !== undefined) step.reused = { runId, count: (step.reused?.count ?? 0) + 1 };
      break;
    }
    case 'WaitStarted': {
      const { childRunId } = payload;
      step.note = waitNote(payload);
      return typeof childRunId === 'string' ? { childRunId } : {};
    }
    case 'WaitEnded':
      step.note = undefined;
      break;
  }
  return {};
}

/** A write that was not sent looks like one that was; who retries wants to know. */
function reusedNote({ reused }: StepLine, ownRunId: string): string | undefined {
  if (reused === undefined) return undefined;
  const from = reused.runId === ownRunId ? 'of this run' : `of run ${reused.runId.slice(0, 8)}`;
  return reused.count === 1 ? `not sent again: receipt ${from}` : `${reused.count} not sent again: receipts ${from}`;
}

function waitNote({ kind, dueAt, details }: Payload): string {
  const reason = (details as Payload | undefined)?.['reason'];
  if (reason === 'EFFECT_UNKNOWN') return 'waits to be settled: nobody knows whether its write happened';
  const until = typeof dueAt === 'string' ? ` until ${dueAt.slice(11, 19)} UTC` : '';
  if (reason === 'EFFECT_UNDER_WAY') return `waits${until}: a write of before may still be under way`;
  return kind === 'timer' && until !== '' ? `waits${until}` : (WAITS[String(kind)] ?? String(kind));
}

const WAITS: Readonly<Record<string, string>> = {
  approval: 'waits for an approval',
  timer: 'waits for its time',
  child: 'waits for its run',
  hold: 'held back by the pause',
};
