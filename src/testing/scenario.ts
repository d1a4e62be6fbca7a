import type { RunEventRecord } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import type { RunSnapshot } from '../contracts/snapshot.ts';
import type { ErrorInfo, StoredValue } from '../contracts/values.ts';
import type { Command, Decision, EventDraft, TimelessCommand } from '../kernel/commands.ts';
import { decide } from '../kernel/decide.ts';
import { unitEntity } from '../kernel/entity-path.ts';
import { foldWithReport } from '../kernel/evolve.ts';
import { resolveLoop } from '../kernel/open-work.ts';
import type { JsonObject } from '../kernel/payload-reader.ts';
import { initialState, type RunState } from '../kernel/state.ts';
import { toSnapshot } from '../kernel/to-snapshot.ts';
import { runStarted, TEST_CONTEXT, TEST_PLAN_REF } from './record-log.ts';
import { MemoryLog } from './stamp-events.ts';

const TEST_ERROR: ErrorInfo = { category: 'tool', code: 'BOOM', message: 'It broke.', retryable: true };

/**
 * Given-when-then for the kernel: each call is one thing that happens to a run, and answers with what was decided, as
 * `Type entity` lines. The run is folded from what was stored, as an engine would.
 */
export class Scenario {
  readonly plan: Plan;
  readonly runId: string;
  state: RunState;
  readonly #log: MemoryLog;
  #now = Date.UTC(2026, 0, 1);

  constructor(plan: Plan, runId = 'run-1') {
    this.plan = plan;
    this.runId = runId;
    this.state = initialState(runId, { keepFinished: true, results: 'all', lineage: 'all' });
    this.#log = new MemoryLog({ runId, planId: plan.metadata.planId, planVersion: plan.metadata.planVersion });
  }

  get log(): readonly RunEventRecord[] {
    return this.#log.records;
  }

  get snapshot(): RunSnapshot {
    return toSnapshot(this.state);
  }

  get now(): string {
    return new Date(this.#now).toISOString();
  }

  /** Lets time pass. */
  wait(millis: number): this {
    this.#now += millis;
    return this;
  }

  /** The answer of the kernel, with nothing stored. */
  ask(command: TimelessCommand): Decision {
    return decide(this.plan, this.state, { ...command, now: this.now } as Command);
  }

  /** What is decided, stored and folded. A refusal is thrown. */
  when(command: TimelessCommand): string[] {
    const decision = this.ask(command);
    if ('reject' in decision) throw new AppError(decision.reject.code, decision.reject.message);
    if ('need' in decision) throw new AppError('INTERNAL', `needs ${decision.need.join(', ')}`);
    return this.store(decision.events);
  }

  /** Events that a worker wrote by itself. */
  store(events: readonly EventDraft[]): string[] {
    const records = this.#log.append(events, this.now);
    const { state, violations } = foldWithReport(this.state, records);
    if (violations.length > 0) throw new AppError('INVALID_TRANSITION', JSON.stringify(violations));
    this.state = state;
    return records.map(describeEvent);
  }

  request(workload?: Record<string, unknown>): string[] {
    const given = workload === undefined ? {} : { workload: { value: workload } };
    return this.when({ type: 'request', planRef: TEST_PLAN_REF, context: TEST_CONTEXT, ...given });
  }

  start(workload?: Record<string, unknown>): string[] {
    if (workload !== undefined) this.request(workload);
    return this.when({ type: 'start', started: { ...runStarted(this.runId).payload, startedAt: this.now } });
  }

  /** A worker begins the current attempt. */
  begin(stepId: string): string[] {
    return this.store([{ eventType: 'StepStarted', stepId, logicalAttemptId: this.#attempt(stepId) }]);
  }

  /** Begins the step if need be, and completes it. */
  complete(stepId: string, value: unknown = null, set?: JsonObject): string[] {
    this.#ensureStarted(stepId);
    const settled = { status: 'completed', result: { value } as StoredValue } as const;
    return this.when({ type: 'stepSettled', stepId, attempt: this.#attempt(stepId), settled, ...(set ? { set } : {}) });
  }

  fail(stepId: string, error: Partial<ErrorInfo> = {}, set?: JsonObject): string[] {
    this.#ensureStarted(stepId);
    const settled = { status: 'failed', error: { ...TEST_ERROR, ...error } } as const;
    return this.when({ type: 'stepSettled', stepId, attempt: this.#attempt(stepId), settled, ...(set ? { set } : {}) });
  }

  /** Begins a loop step and resolves its list. */
  loop(stepId: string): string[] {
    this.#ensureStarted(stepId);
    const resolved = resolveLoop(this.plan, this.state, stepId);
    if ('need' in resolved) throw new AppError('INTERNAL', `needs ${resolved.need.join(', ')}`);
    const attempt = this.#attempt(stepId);
    if ('error' in resolved) {
      return this.when({ type: 'stepSettled', stepId, attempt, settled: { status: 'failed', error: resolved.error } });
    }
    const { items } = resolved;
    return this.when({ type: 'loopResolved', stepId, attempt, list: { value: items }, count: items.length });
  }

  /** Ends one iteration, well or badly. */
  iterate(stepId: string, index: number, outcome: unknown = null, set?: JsonObject): string[] {
    const attempt = this.#attempt(stepId);
    const settled =
      outcome instanceof Error
        ? ({ status: 'failed', error: { ...TEST_ERROR, message: outcome.message } } as const)
        : ({ status: 'completed', result: { value: outcome } as StoredValue } as const);
    return this.when({ type: 'iterationSettled', stepId, attempt, index, settled, ...(set ? { set } : {}) });
  }

  beginIteration(stepId: string, index: number): string[] {
    const entity = unitEntity(stepId, index);
    const logicalAttemptId = this.#attempt(stepId);
    return this.store([{ eventType: 'LoopIterationStarted', stepId, entity, logicalAttemptId, payload: { index } }]);
  }

  endLoop(stepId: string, value: unknown = []): string[] {
    return this.when({ type: 'loopSettled', stepId, attempt: this.#attempt(stepId), result: { value } });
  }

  signal(signalType: string, stepId?: string, signalId = `${signalType}-${this.log.length}`): string[] {
    return this.when({ type: 'signal', signalId, signalType, by: 'ann', ...(stepId === undefined ? {} : { stepId }) });
  }

  #attempt(stepId: string): number {
    return this.state.open.get(stepId)?.attempt ?? 1;
  }

  #ensureStarted(stepId: string): void {
    if (this.state.open.get(stepId)?.status === 'PENDING') this.begin(stepId);
  }
}

/** `StepScheduled fetch#2`, `StepScheduled fetch (attempt 2)`, `RunCompleted`. */
export function describeEvent(
  event: Pick<RunEventRecord, 'eventType' | 'stepId' | 'entity' | 'logicalAttemptId'>,
): string {
  const place = event.entity ?? event.stepId;
  const attempt = event.logicalAttemptId > 1 ? ` (attempt ${event.logicalAttemptId})` : '';
  return `${event.eventType}${place === undefined ? '' : ` ${place}`}${attempt}`;
}
