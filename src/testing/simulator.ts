import type { RunEventRecord } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import type { RunSnapshot } from '../contracts/snapshot.ts';
import { isTerminal } from '../contracts/states.ts';
import type { ErrorInfo, StoredValue } from '../contracts/values.ts';
import type {
  Command,
  Decision,
  EventDraft,
  Settled,
  TimelessCommand,
  WaitKind,
  WaitOutcome,
} from '../kernel/commands.ts';
import { engineState } from '../kernel/compile-plan.ts';
import { decide } from '../kernel/decide.ts';
import { parseEntity, stepNameOf, unitEntity } from '../kernel/entity-path.ts';
import { fold, foldWithReport } from '../kernel/evolve.ts';
import { mustStop, mustStopStep, openWork, resolveLoop, type WorkUnit } from '../kernel/open-work.ts';
import type { JsonObject } from '../kernel/payload-reader.ts';
import { afterOutcome, type Instruction, nextInPipeline, type PipelineAnswer } from '../kernel/pipeline.ts';
import { compilePipeline } from '../kernel/pipeline-plan.ts';
import type { PipelineContext } from '../kernel/pipeline-scope.ts';
import { resumePipeline } from '../kernel/pipeline-state.ts';
import { initialState, type RunState } from '../kernel/state.ts';
import { toSnapshot } from '../kernel/to-snapshot.ts';
import { checkScripts } from './check-scripts.ts';
import { runStarted, TEST_CONTEXT, TEST_PLAN_REF } from './record-log.ts';
import { calledTask, type Script, type SimulatedCall, type SimulatedOutcome, taskOutcome } from './simulated-call.ts';
import { SimulatedUnit, unitKey } from './simulated-unit.ts';
import { MemoryLog } from './stamp-events.ts';
import { seededRandom, VirtualClock } from './virtual-clock.ts';

export interface SimulatorOptions {
  readonly runId?: string;
  readonly workload?: Record<string, unknown>;
  /**
   * Scripts by `step/task`, by step or by tool; what has none succeeds with its `result` field, or null. A name that the plan does
   * not have is refused with STEP_NOT_FOUND.
   */
  readonly scripts?: Readonly<Record<string, Script>>;
  /** Things that people do, at a time after the start. */
  readonly signals?: readonly {
    readonly afterMs: number;
    readonly signalType: string;
    readonly stepId?: string;
    readonly signalId?: string;
  }[];
  /** With a seed everything that happens at the same time happens in random order, and calls take random times. */
  readonly seed?: number;
  /** How many units may be under way at once. */
  readonly workers?: number;
  /** How likely a worker dies in the middle of a unit, and a result is delivered twice. Both need a seed. */
  readonly crashRate?: number;
  readonly duplicateRate?: number;
  readonly cancelGraceMs?: number;
  /** A run that has not ended after so many events is taken for one that never will. */
  readonly maxEvents?: number;
  /** Called with the engine's state after each append. */
  readonly onAppend?: (state: RunState, records: readonly RunEventRecord[]) => void;
}

export interface Simulation {
  readonly log: readonly RunEventRecord[];
  readonly snapshot: RunSnapshot;
  /** The state as an engine keeps it, at the end. */
  readonly state: RunState;
  readonly decisions: number;
  readonly elapsedMs: number;
}

const LEASE_MS = 60_000;

/**
 * Plays a plan to its end in memory, on a virtual clock, with scripted outcomes. It uses the kernel exactly as an
 * engine does (decide, fold, pipeline, open work), so what it shows is what an engine will do.
 */
export function simulate(plan: Plan, options: SimulatorOptions = {}): Simulation {
  return new Simulator(plan, options).play();
}

class Simulator {
  readonly #plan: Plan;
  readonly #options: SimulatorOptions;
  readonly #runId: string;
  readonly #log: MemoryLog;
  readonly #clock: VirtualClock;
  readonly #random: () => number;
  readonly #calls = new Map<string, number>();
  /** Units that a worker holds, by entity and attempt. */
  readonly #held = new Set<string>();
  readonly #events = new Map<string, RunEventRecord[]>();
  #state: RunState;
  #decisions = 0;
  #graceStarted = false;

  constructor(plan: Plan, options: SimulatorOptions) {
    checkScripts(plan, Object.keys(options.scripts ?? {}));
    this.#plan = plan;
    this.#options = options;
    this.#runId = options.runId ?? 'run-1';
    const { planId, planVersion } = plan.metadata;
    this.#log = new MemoryLog({ runId: this.#runId, planId, planVersion });
    this.#random = seededRandom(options.seed ?? 1);
    this.#clock = new VirtualClock(Date.UTC(2026, 0, 1), options.seed === undefined ? undefined : this.#random);
    this.#state = engineState(plan, this.#runId);
  }

  play(): Simulation {
    const begun = this.#clock.now;
    const { workload, signals = [], maxEvents = 100_000 } = this.#options;
    const given = workload === undefined ? {} : { workload: { value: workload } };
    this.#do({ type: 'request', planRef: TEST_PLAN_REF, context: TEST_CONTEXT, ...given });
    this.#do({ type: 'start', started: { ...runStarted(this.#runId).payload, startedAt: this.#now } });
    for (const [i, { afterMs, ...signal }] of signals.entries()) {
      this.#clock.after(afterMs, () => this.#do({ type: 'signal', signalId: `signal-${i}`, ...signal }));
    }
    this.#handOut();
    while (!this.#isOver && this.#clock.step()) {
      if (this.#log.records.length > maxEvents) throw new AppError('STEP_LIMIT', `More than ${maxEvents} events.`);
      this.#handOut();
    }
    const { records } = this.#log;
    const view = fold(initialState(this.#runId, { keepFinished: true }), records);
    return {
      log: records,
      snapshot: toSnapshot(view),
      state: this.#state,
      decisions: this.#decisions,
      elapsedMs: this.#clock.now - begun,
    };
  }

  get #isOver(): boolean {
    const { status } = this.#state.run;
    return status !== null && isTerminal(status);
  }

  get #now(): string {
    return new Date(this.#clock.now).toISOString();
  }

  #do(command: TimelessCommand): Decision {
    this.#decisions++;
    const full = { ...command, now: this.#now, random: this.#random() } as Command;
    const decision = decide(this.#plan, this.#state, full);
    if ('events' in decision) this.#append(decision.events);
    if ('need' in decision) throw new AppError('INTERNAL', 'The simulator keeps every value in the log.');
    return decision;
  }

  #append(events: readonly EventDraft[]): void {
    if (events.length === 0) return;
    const records = this.#log.append(events, this.#now);
    const { state, violations } = foldWithReport(this.#state, records);
    if (violations.length > 0) throw new AppError('INVALID_TRANSITION', JSON.stringify(violations));
    this.#state = state;
    for (const record of records) {
      const place = record.entity === undefined ? undefined : parseEntity(record.entity);
      if (!place || record.stepId === undefined) continue;
      const unit = `${unitEntity(place.stepId, place.iteration)}@${record.logicalAttemptId}`;
      const known = this.#events.get(unit);
      if (known) known.push(record);
      else this.#events.set(unit, [record]);
    }
    this.#options.onAppend?.(state, records);
    if (mustStop(state) && !this.#graceStarted) {
      this.#graceStarted = true;
      this.#clock.after(this.#options.cancelGraceMs ?? 30_000, () => {
        if (!this.#isOver && mustStop(this.#state)) this.#do({ type: 'cancelGraceOver' });
      });
    }
  }

  /** Gives free workers what is open and due. Everything is read off the log: there is no other list of work. */
  #handOut(): void {
    if (this.#state.run.status !== 'RUNNING') return;
    const units = openWork(this.#state);
    if (this.#options.seed !== undefined) units.sort(() => this.#random() - 0.5);
    for (const unit of units) {
      if (unit.kind === 'wait') continue;
      if (this.#held.size >= (this.#options.workers ?? Number.POSITIVE_INFINITY)) return;
      const key = unitKey(unit);
      if (this.#held.has(key)) continue;
      this.#held.add(key);
      const due = 'dueAt' in unit && unit.dueAt !== undefined ? Date.parse(unit.dueAt) : this.#clock.now;
      this.#clock.at(due, () => this.#take(unit, key));
    }
  }

  #take(unit: Exclude<WorkUnit, { kind: 'wait' }>, key: string): void {
    // Paused, skipped or cancelled in the meantime.
    const isOpen = openWork(this.#state).some((open) => open.kind === unit.kind && unitKey(open) === key);
    if (!isOpen || this.#state.run.status !== 'RUNNING') {
      this.#held.delete(key);
      return;
    }
    const { stepId, attempt } = unit;
    if (unit.kind === 'loopEnd') {
      this.#held.delete(key);
      this.#do({ type: 'loopSettled', stepId, attempt, result: { value: this.#results(stepId, attempt) } });
      return;
    }
    const engineAttemptId = 1;
    if (this.#state.open.get(stepId)?.status === 'PENDING') {
      this.#append([{ eventType: 'StepStarted', stepId, logicalAttemptId: attempt, engineAttemptId }]);
    }
    const loop = this.#plan.steps.find((step) => step.stepId === stepNameOf(stepId))?.loop;
    if (unit.kind === 'step' && loop) {
      this.#held.delete(key);
      this.#beginLoop(stepId, attempt);
      return;
    }
    const index = unit.kind === 'iteration' ? unit.index : undefined;
    if (index !== undefined && !this.#state.loops.get(stepId)?.open.get(index)?.started) {
      const entity = unitEntity(stepId, index);
      this.#append([
        { eventType: 'LoopIterationStarted', stepId, entity, logicalAttemptId: attempt, payload: { index } },
      ]);
    }
    this.#work(new SimulatedUnit(this.#plan, this.#state, stepId, attempt, index), key);
  }

  #beginLoop(stepId: string, attempt: number): void {
    const loop = this.#plan.steps.find((step) => step.stepId === stepNameOf(stepId))?.loop;
    if (loop?.mode === 'cursor') {
      this.#do({ type: 'loopResolved', stepId, attempt });
      return;
    }
    const resolved = resolveLoop(this.#plan, this.#state, stepId);
    if ('items' in resolved) {
      const { items } = resolved;
      this.#do({ type: 'loopResolved', stepId, attempt, list: { value: items }, count: items.length });
    } else if ('error' in resolved) {
      this.#do({ type: 'stepSettled', stepId, attempt, settled: { status: 'failed', error: resolved.error } });
    }
  }

  /** The pipeline of one unit, from its recorded outcomes on. */
  #work(unit: SimulatedUnit, key: string): void {
    const recorded = this.#events.get(`${unit.entity}@${unit.attempt}`) ?? [];
    const state = resumePipeline(compilePipeline(this.#plan, unit.step), unit.entity, recorded);
    this.#obey(unit, key, nextInPipeline(unit.context(this.#state, this.#random()), state));
  }

  #obey(unit: SimulatedUnit, key: string, answer: PipelineAnswer): void {
    if ('need' in answer) throw new AppError('INTERNAL', 'The simulator keeps every value in the log.');
    if (this.#options.crashRate !== undefined && this.#random() < this.#options.crashRate) {
      // Dead before anything was told: somebody else takes the unit when the lease is over.
      this.#clock.after(LEASE_MS, () => this.#held.delete(key));
      return;
    }
    this.#append(answer.events);
    if (answer.do === 'end') this.#settle(unit, key, answer);
    else if (answer.do === 'wait') {
      const context = unit.context(this.#state, this.#random());
      this.#clock.after(answer.millis, () => this.#goOn(unit, key, () => nextInPipeline(context, answer.state)));
    } else this.#call(unit, key, answer);
  }

  /** A worker looks around before it goes on: its unit may have been cancelled. */
  #goOn(unit: SimulatedUnit, key: string, next: () => PipelineAnswer): void {
    if (!this.#isRunning(unit)) {
      this.#held.delete(key);
      return;
    }
    if (mustStopStep(this.#plan, this.#state, unit.stepId))
      this.#settle(unit, key, { settled: { status: 'failed', error: STOPPED }, set: {} });
    else this.#obey(unit, key, next());
  }

  #isRunning(unit: SimulatedUnit): boolean {
    const step = this.#state.open.get(unit.stepId);
    if (step?.status !== 'RUNNING' || step.attempt !== unit.attempt) return false;
    return unit.index === undefined || this.#state.loops.get(unit.stepId)?.open.has(unit.index) === true;
  }

  #call(unit: SimulatedUnit, key: string, run: Instruction & { do: 'run' }): void {
    const context = unit.context(this.#state, this.#random());
    let outcome: SimulatedOutcome;
    try {
      outcome = this.#answer(unit, run, context);
    } catch (thrown) {
      if (!(thrown instanceof AppError)) throw thrown;
      outcome = { error: { category: 'template', code: thrown.code, message: thrown.message, retryable: false } };
    }
    const ms = outcome.ms ?? (this.#options.seed === undefined ? 0 : Math.floor(this.#random() * 50));
    if ('wait' in outcome) {
      const { wait } = outcome;
      this.#clock.after(0, () => this.#park(unit, key, wait, ms));
      return;
    }
    const told = taskOutcome(outcome);
    this.#clock.after(ms, () =>
      this.#goOn(unit, key, () => afterOutcome(unit.context(this.#state, this.#random()), run.state, told)),
    );
  }

  #park(
    unit: SimulatedUnit,
    key: string,
    wait: { kind: WaitKind; outcome: WaitOutcome; result?: unknown },
    ms: number,
  ): void {
    this.#held.delete(key);
    if (!this.#isRunning(unit)) return;
    const { stepId, attempt, index } = unit;
    const place = index === undefined ? {} : { index };
    const dueAt = new Date(this.#clock.now + ms).toISOString();
    const decision = this.#do({ type: 'park', stepId, attempt, ...place, kind: wait.kind, dueAt });
    const entity = 'events' in decision ? decision.events[0]?.entity : undefined;
    if (entity === undefined) return;
    this.#clock.after(ms, () => {
      if (!this.#state.waits.has(entity)) return;
      const result = wait.result === undefined ? {} : { result: { value: wait.result } };
      this.#do({ type: 'waitEnded', entity, outcome: wait.outcome, ...result });
    });
  }

  #answer(unit: SimulatedUnit, run: Instruction & { do: 'run' }, context: PipelineContext): SimulatedOutcome {
    const { task } = run;
    const { called, fields } = calledTask(context, task, run.state);
    const woken = this.#wokenBy(unit);
    const call: SimulatedCall = {
      stepId: unit.stepId,
      step: unit.step,
      task: task.name,
      kind: called.kind,
      run: run.state.runs[task.name] ?? 1,
      attempt: run.attempt,
      logicalAttempt: unit.attempt,
      ...(unit.index === undefined ? {} : { index: unit.index, item: context.iteration?.item }),
      fields,
      now: this.#now,
      ...(woken === undefined ? {} : { woken }),
    };
    const { scripts = {} } = this.#options;
    for (const name of [`${unit.step}/${task.name}`, unit.step, called.kind]) {
      const script = Object.hasOwn(scripts, name) ? scripts[name] : undefined;
      const answer = script === undefined ? undefined : this.#read(name, script, call);
      if (answer) return answer;
    }
    if (woken?.outcome === 'failed') return { error: { code: 'CHILD_RUN_FAILED', message: 'The child run failed.' } };
    if (woken && 'result' in woken) return { ok: woken.result };
    return { ok: fields['result'] ?? null };
  }

  #read(name: string, script: Script, call: SimulatedCall): SimulatedOutcome | undefined {
    if (typeof script === 'function') return script(call);
    if (!Array.isArray(script)) return script as SimulatedOutcome;
    const made = this.#calls.get(name) ?? 0;
    this.#calls.set(name, made + 1);
    return (script as SimulatedOutcome[])[Math.min(made, script.length - 1)];
  }

  /** How the last wait of a unit ended, if nothing has been recorded since. */
  #wokenBy(unit: SimulatedUnit): SimulatedCall['woken'] {
    const last = (this.#events.get(`${unit.entity}@${unit.attempt}`) ?? []).at(-1);
    if (last?.eventType !== 'WaitEnded') return undefined;
    const { outcome, result } = last.payload as { outcome: WaitOutcome; result?: { value: unknown } };
    return { outcome, ...(result === undefined ? {} : { result: result.value }) };
  }

  #settle(unit: SimulatedUnit, key: string, { settled, set }: { settled: Settled; set: JsonObject }): void {
    this.#held.delete(key);
    const { stepId, attempt, index } = unit;
    const more = Object.keys(set).length === 0 ? {} : { set };
    const command =
      index === undefined
        ? ({ type: 'stepSettled', stepId, attempt, settled, ...more } as const)
        : ({ type: 'iterationSettled', stepId, attempt, index, settled, ...more } as const);
    this.#do(command);
    const { duplicateRate } = this.#options;
    if (duplicateRate !== undefined && this.#random() < duplicateRate) {
      this.#clock.after(Math.floor(this.#random() * 1000), () => this.#do(command));
    }
  }

  #results(stepId: string, attempt: number): unknown[] {
    const results: unknown[] = [];
    for (const { eventType, stepId: of, logicalAttemptId, payload } of this.#log.records) {
      if (of !== stepId || logicalAttemptId !== attempt) continue;
      if (eventType !== 'LoopIterationDone' && eventType !== 'LoopIterationFailed') continue;
      const stored = payload?.['result'] as StoredValue | undefined;
      results[payload?.['index'] as number] = stored && 'value' in stored ? stored.value : null;
    }
    return Array.from(results, (result) => result ?? null);
  }
}

const STOPPED: ErrorInfo = {
  category: 'cancelled',
  code: 'CANCELLED',
  message: 'The worker was told to stop.',
  retryable: false,
};
