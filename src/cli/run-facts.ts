import type { StoredRecord } from '../contracts/envelope.ts';
import type { ErrorInfo, PlanRef, StoredValue } from '../contracts/values.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { sha256Hex } from '../lib/hash.ts';

/** What a run did at one step instance, as far as two runs can be compared by it. */
export interface StepFacts {
  readonly stepId: string;
  /** Stands for the step and for the way that led to it: equal in two runs that came here in the same way. */
  key: string;
  status: string;
  attempts: number;
  /** How often tasks were called, all tasks and iterations together. */
  calls: number;
  /** The steps that its arcs chose. */
  next: readonly string[] | undefined;
  result: StoredValue | undefined;
  error: ErrorInfo | undefined;
  startedAt: number | undefined;
  durationMs: number | undefined;
  loop: { count: number; failed: number } | undefined;
  /** What each iteration came to: its result, or the code of its error. */
  readonly iterations: Map<number, unknown>;
  /** The runs that it started, by where it waited for them. */
  readonly children: Map<string, string>;
}

export interface RunFacts {
  readonly runId: string;
  status: string;
  planRef: PlanRef | undefined;
  workload: StoredValue | undefined;
  result: StoredValue | undefined;
  error: ErrorInfo | undefined;
  startedAt: number | undefined;
  durationMs: number | undefined;
  /** In the order in which they were scheduled. */
  readonly steps: Map<string, StepFacts>;
  /** Ids that no two runs share, and what stands for them in a comparison. */
  readonly ids: Map<string, string>;
}

type Payload = Readonly<Record<string, unknown>>;

/** Reads a log into facts. Duplicates and retries of the machinery leave no trace here: only what was decided counts. */
export function runFacts(runId: string, log: readonly StoredRecord[]): RunFacts {
  const run: RunFacts = {
    runId,
    status: 'PENDING',
    planRef: undefined,
    workload: undefined,
    result: undefined,
    error: undefined,
    startedAt: undefined,
    durationMs: undefined,
    steps: new Map(),
    ids: new Map([[runId, '(this run)']]),
  };
  for (const record of log) {
    const payload: Payload = record.payload ?? {};
    if (record.stepId === undefined) takeRun(run, record, payload);
    else takeStep(run, stepOf(run, record.stepId), record, payload);
  }
  return run;
}

/** A value by its content, without the ids of its own run: small ones as they are, large ones by their hash. */
export function comparable({ ids }: RunFacts, stored: StoredValue | undefined): unknown {
  if (stored === undefined) return undefined;
  if (!('value' in stored)) return `sha256:${stored.ref.sha256 ?? stored.ref.uri}`;
  let text = canonicalJson(stored.value);
  for (const [id, name] of ids) text = text.replaceAll(id, name);
  return settled(JSON.parse(text));
}

/** Without what no two answers of a server share: how long it took, and the time of day. */
function settled(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(settled);
  const map = Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, settled(entry)]));
  const { headers, elapsed_ms: elapsed, ...rest } = map;
  const isAnswer = typeof elapsed === 'number' && typeof headers === 'object' && headers !== null;
  if (!isAnswer) return map;
  const { date: _date, ...others } = headers as Record<string, unknown>;
  return { ...rest, headers: others };
}

function stepOf(run: RunFacts, stepId: string): StepFacts {
  let step = run.steps.get(stepId);
  if (!step) {
    step = {
      stepId,
      key: stepId,
      status: 'PENDING',
      attempts: 1,
      calls: 0,
      next: undefined,
      result: undefined,
      error: undefined,
      startedAt: undefined,
      durationMs: undefined,
      loop: undefined,
      iterations: new Map(),
      children: new Map(),
    };
    run.steps.set(stepId, step);
  }
  return step;
}

const ENDS: Readonly<Record<string, string>> = {
  RunCompleted: 'COMPLETED',
  RunFailed: 'FAILED',
  RunCancelled: 'CANCELLED',
};
const MOVES: Readonly<Record<string, string>> = {
  RunStarted: 'RUNNING',
  RunPaused: 'PAUSED',
  RunResumed: 'RUNNING',
  ...ENDS,
};

function takeRun(run: RunFacts, { eventType, emittedAt }: StoredRecord, payload: Payload): void {
  run.status = MOVES[eventType] ?? run.status;
  if (eventType === 'PlaybookExecutionRequested') {
    run.planRef = payload['planRef'] as PlanRef | undefined;
    run.workload = payload['workload'] as StoredValue | undefined;
    run.startedAt = Date.parse(emittedAt);
  }
  if (eventType === 'RunStarted') run.planRef ??= payload['planRef'] as PlanRef | undefined;
  if (!(eventType in ENDS)) return;
  run.result = payload['result'] as StoredValue | undefined;
  const cause = payload['rootCause'] as { error: ErrorInfo } | undefined;
  run.error = cause?.error ?? (payload['error'] as ErrorInfo | undefined);
  if (run.startedAt !== undefined) run.durationMs = Date.parse(emittedAt) - run.startedAt;
}

function takeStep(run: RunFacts, step: StepFacts, record: StoredRecord, payload: Payload): void {
  const end = (status: string): void => {
    step.status = status;
    step.result = (payload['result'] as StoredValue | undefined) ?? step.result;
    step.error = payload['error'] as ErrorInfo | undefined;
    const said = payload['durationMs'];
    const since = step.startedAt === undefined ? undefined : Date.parse(record.emittedAt) - step.startedAt;
    step.durationMs = step.loop || step.children.size > 0 || typeof said !== 'number' ? since : said;
  };
  switch (record.eventType) {
    case 'StepScheduled':
      step.key = causalKey(run, step.stepId, payload);
      step.attempts = Math.max(step.attempts, record.logicalAttemptId);
      break;
    case 'StepStarted':
      step.status = 'RUNNING';
      step.startedAt = Date.parse(record.emittedAt);
      break;
    case 'StepCompleted':
      end('SUCCESS');
      break;
    case 'StepFailed':
      end('FAILED');
      break;
    case 'StepSkipped':
      step.key = causalKey(run, step.stepId, payload);
      step.status = 'SKIPPED';
      break;
    case 'StepCarried':
      step.key = causalKey(run, step.stepId, payload);
      end(String(payload['status']));
      break;
    case 'NextEvaluated':
      step.next = ((payload['selected'] as { step: string }[] | undefined) ?? []).map((arc) => arc.step);
      break;
    case 'TaskAttemptStarted':
      step.calls += 1;
      break;
    case 'LoopIterationDone':
    case 'LoopIterationFailed': {
      const error = payload['error'] as ErrorInfo | undefined;
      const value = error?.code ?? comparable(run, payload['result'] as StoredValue | undefined);
      step.iterations.set(Number(payload['index']), value);
      break;
    }
    case 'LoopDone':
      step.loop = { count: Number(payload['count']), failed: Number(payload['failed']) };
      step.result = (payload['result'] as StoredValue | undefined) ?? step.result;
      break;
    case 'WaitStarted':
      if (typeof payload['childRunId'] !== 'string' || record.entity === undefined) break;
      // Without the number of the instance, which may differ where the way there does not.
      step.children.set(record.entity.slice(step.stepId.length), payload['childRunId']);
      run.ids.set(payload['childRunId'], `(run of ${record.entity.replace(/#\d+/, '')})`);
      break;
  }
}

/** The second time through a cycle and the third differ, and so do two branches that meet: their causes do. */
function causalKey(run: RunFacts, stepId: string, payload: Payload): string {
  const name = stepId.replace(/#\d+$/, '');
  const cause = payload['cause'] as { kind: string; arrivals?: { from: string; arc: number }[] } | undefined;
  const from = (cause?.arrivals ?? []).map((arrival) => `${run.steps.get(arrival.from)?.key}:${arrival.arc}`);
  return sha256Hex(JSON.stringify([name, from.length === 0 ? (cause?.kind ?? '') : '', ...from.sort()]));
}
