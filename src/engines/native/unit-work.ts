import { AppError } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { ErrorInfo } from '../../contracts/values.ts';
import type { EventDraft } from '../../kernel/commands.ts';
import { stepNameOf, unitEntity } from '../../kernel/entity-path.ts';
import { isUncatchable } from '../../kernel/failures.ts';
import { isLoopFailing } from '../../kernel/loops.ts';
import { mustStopStep, resolveLoop } from '../../kernel/open-work.ts';
import type { RunState, StepState, WaitState } from '../../kernel/state.ts';
import { faultPoint } from '../../lib/fault-point.ts';
import { stampEvent } from '../../store/stamp-event.ts';
import type { Store } from '../../store/store.ts';
import type { Lease } from '../../store/work.ts';
import { loopKey, type UnitKey } from '../../store/work-unit.ts';
import type { RunnerPorts } from '../../worker/ports.ts';
import { expectStored, type RunView } from '../../worker/run-view.ts';
import { runUnit, type UnitEnd } from '../../worker/step-runner.ts';
import { fetchValues, loadValue, storeResult } from '../../worker/store-result.ts';
import type { UnitHost, UnitPlace } from '../../worker/unit-host.ts';
import type { WriteBudget } from '../../worker/write-budget.ts';
import { commitDecision, type DecisionPorts, type DecisionRequest } from './commit-decision.ts';
import type { HeldUnit } from './held-unit.ts';
import { loopResult } from './loop-result.ts';
import type { RunViews } from './run-views.ts';

/** What a worker's units need beside their own lease. */
export interface UnitPorts extends DecisionPorts {
  readonly store: Store;
  readonly runner: RunnerPorts;
  readonly views: RunViews;
  readonly room: () => number;
  readonly isStopping: () => boolean;
  readonly budget: WriteBudget;
  /** Steps that only compute or read do not wait for the commit of the step before them. */
  readonly runAhead: boolean;
  /** Starts the child that a wait names; it may be there already. */
  readonly startChild: (view: RunView, wait: WaitState) => Promise<void>;
  readonly relaySignal: (runId: string, signalType: string, signalId: string) => Promise<void>;
}

/** How soon a wait for a child looks again by itself, should nobody wake it. */
const CHILD_POLL_MS = 15_000;

/** The kinds of units, each under the lease of one of them. */
export class UnitWork {
  readonly #ports: UnitPorts;
  readonly #held: HeldUnit;
  readonly #view: RunView;

  constructor(ports: UnitPorts, held: HeldUnit, view: RunView) {
    this.#ports = ports;
    this.#held = held;
    this.#view = view;
  }

  async step({ stepId, attempt }: Extract<UnitKey, { kind: 'step' }>): Promise<readonly Lease[]> {
    const step = await this.#find((state) => openStep(state, stepId, attempt));
    if (!step) return this.#discard();
    if (step.status === 'PENDING' && (await this.#isHeldBack())) return this.#giveBack();
    const begun: EventDraft[] = step.status === 'PENDING' ? [this.started(step)] : [];
    const planned = this.#view.plan.steps.find((candidate) => candidate.stepId === step.name);
    if (planned?.loop) return this.#beginLoop(step, begun);
    // Where its start may not be written later, nothing is called before it is stored.
    const isStrict = begun.length > 0 && !this.#ports.budget.failsOpen(['StepStarted']);
    if (isStrict) await this.host({ stepId, attempt }, [], false).record(begun);
    const host = this.host({ stepId, attempt }, isStrict ? [] : begun, step.status === 'RUNNING');
    const end = await runUnit(this.#ports.runner, host);
    await faultPoint('step.before-settle');
    if (end.kind === 'parked') return this.park({ stepId, attempt }, end);
    return this.settle({ stepId, attempt }, end);
  }

  /**
   * Records how a step ended, within the budget of writes. Over it, the old lease is burnt: either the end was stored, and
   * stands, or it can no longer be, and the attempt fails as soon as the store answers.
   */
  async settle(place: UnitPlace, end: Extract<UnitEnd, { kind: 'settled' }>): Promise<readonly Lease[]> {
    try {
      return await this.#settleInTime(place, end);
    } catch (thrown) {
      const error = unstorable(thrown);
      if (!error) throw thrown;
      // Delivered again it would come to the same: the step fails, with as little as there is to say.
      const settled = { status: 'failed', error } as const;
      return this.#settleInTime(place, { ...end, settled, set: {}, facts: essential(end.facts) });
    }
  }

  async #settleInTime(place: UnitPlace, end: Extract<UnitEnd, { kind: 'settled' }>): Promise<readonly Lease[]> {
    const { stepId, attempt } = place;
    const { settled, set, facts } = end;
    const engineAttempt = this.#held.deliveries;
    const type = settled.status === 'completed' ? 'StepCompleted' : 'StepFailed';
    const writing = this.decide({
      facts,
      ask: () => ({ type: 'stepSettled', stepId, attempt, engineAttempt, settled, set }),
    });
    if (!this.#ports.budget.failsStep([type])) return writing;
    const result = await this.#ports.budget.within(writing);
    if (result !== 'late') return result;
    return (await this.overBudget(place, facts)) ?? writing;
  }

  /** Undefined when the late write was stored after all. */
  async overBudget(place: UnitPlace, facts: readonly EventDraft[]): Promise<readonly Lease[] | undefined> {
    const { stepId, attempt } = place;
    const from = performance.now();
    const fence = await this.#ports.work.burn(this.#held, this.#ports.leaseMs);
    if (fence === undefined) return undefined;
    this.#held.moveTo({ unit: this.#held.unit, fence }, from + this.#ports.leaseMs);
    await this.#ports.refresh(this.#view);
    const message = `The end of the step was not stored within ${this.#ports.budget.millis} ms.`;
    const error = { category: 'store', code: 'WRITE_BUDGET_EXCEEDED', message, retryable: true };
    const settled = { status: 'failed', error } as const;
    const begun = essential(facts);
    const engineAttempt = this.#held.deliveries;
    return this.decide({ facts: begun, ask: () => ({ type: 'stepSettled', stepId, attempt, engineAttempt, settled }) });
  }

  async iteration({ stepId, attempt, index }: Extract<UnitKey, { kind: 'iteration' }>): Promise<readonly Lease[]> {
    const loop = await this.#find(({ loops }) => {
      const found = loops.get(stepId);
      if (found?.attempt !== attempt) return undefined;
      // A sequence sees what the iteration before it wrote.
      return found.mode === 'sequential' && this.#view.isBehind ? undefined : found;
    });
    const entry = loop?.open.get(index);
    if (!loop || (!entry && index < loop.next) || (entry?.openWaits ?? 0) > 0) return this.#discard();
    if (!entry?.started && (await this.#isHeldBack())) return this.#giveBack();
    const place: UnitPlace = { stepId, attempt, index };
    const entity = unitEntity(stepId, index);
    const base = { stepId, entity, logicalAttemptId: attempt };
    const begun: EventDraft[] = [];
    if (!entry) begun.push({ ...base, eventType: 'LoopIterationScheduled', payload: { index } });
    if (!entry?.started) {
      const payload = { index, startedAt: new Date().toISOString(), leaseOwner: this.#ports.owner };
      begun.push({ ...base, eventType: 'LoopIterationStarted', payload });
    }
    const items = loop.list === undefined ? [] : await this.#items(loop.list);
    const isRedelivered = entry?.started === true || this.#held.deliveries > 1;
    const end = await runUnit(this.#ports.runner, this.host(place, begun, isRedelivered, items[index]));
    await faultPoint('iteration.before-settle');
    if (end.kind === 'parked') return this.park(place, end);
    try {
      return await this.#endIteration(place, end);
    } catch (thrown) {
      const error = unstorable(thrown);
      if (!error) throw thrown;
      const settled = { status: 'failed', error } as const;
      return this.#endIteration(place, { ...end, settled, set: {}, facts: essential(end.facts) });
    }
  }

  /** Iteration facts commute: no head is asked for, and the store hands out what comes next. */
  async #endIteration(place: UnitPlace, end: Extract<UnitEnd, { kind: 'settled' }>): Promise<readonly Lease[]> {
    const { stepId, attempt, index } = place;
    const { settled, set, facts } = end;
    const said = {
      index,
      durationMs: settled.durationMs,
      ...(settled.outcome === undefined ? {} : { outcome: settled.outcome }),
      ...(Object.keys(set).length === 0 ? {} : { set: { ...set } }),
    };
    const entity = unitEntity(stepId, index);
    const ending: EventDraft =
      settled.status === 'completed'
        ? {
            eventType: 'LoopIterationDone',
            stepId,
            entity,
            logicalAttemptId: attempt,
            payload: { ...said, ...(settled.result === undefined ? {} : { result: settled.result }) },
          }
        : {
            eventType: 'LoopIterationFailed',
            stepId,
            entity,
            logicalAttemptId: attempt,
            payload: { ...said, error: settled.error },
          };
    const stop = settled.status === 'failed' && (this.#mode(stepId) === 'fail_fast' || isUncatchable(settled.error));
    const events = this.#stamp([...facts, ending]);
    const result = await this.#ports.work.commit({
      run: this.#view.run,
      ...split(events),
      owner: this.#ports.owner,
      leaseMs: this.#ports.leaseMs,
      work: [{ op: 'delete', unit: this.#held.unit, fence: this.#held.fence }],
      loops: [{ op: 'ended', loop: loopKey(stepId, attempt), stop }],
    });
    await faultPoint('iteration.after-commit');
    if (result.ok) {
      this.#view.stored(events, result.receipts);
      return result.handouts;
    }
    if (result.reason !== 'LEASE_LOST') await this.#keepOutcomes(facts);
    return [];
  }

  #mode(stepId: string): 'fail_fast' | 'best_effort' {
    const name = this.#view.state.open.get(stepId)?.name;
    return this.#view.plan.steps.find((step) => step.stepId === name)?.failure?.mode ?? 'fail_fast';
  }

  async loopEnd({ stepId, attempt }: Extract<UnitKey, { kind: 'loopEnd' }>): Promise<readonly Lease[]> {
    if (this.#view.isBehind || (this.#view.state.loops.get(stepId)?.open.size ?? 0) > 0) {
      await this.#ports.views.refresh(this.#view);
    }
    const loop = await this.#find(({ loops }) => loops.get(stepId));
    if (loop?.attempt !== attempt) return this.#discard();
    const { plan, state } = this.#view;
    const planned = plan.steps.find((step) => step.stepId === stepNameOf(stepId));
    if (isLoopFailing(planned, loop) || mustStopStep(plan, state, stepId))
      return this.decide({ ask: () => ({ type: 'tick' }) });
    const list = await loopResult(this.#ports.store, this.#ports.artifacts, this.#view, loop);
    const result = await storeResult(this.#ports.artifacts, list, undefined, 'loop-result');
    return this.decide({ ask: () => ({ type: 'loopSettled', stepId, attempt, result }) });
  }

  async wait(entity: string): Promise<readonly Lease[]> {
    const wait = await this.#find(({ waits }) => waits.get(entity));
    if (!wait) return this.#discard();
    if (wait.kind === 'child') return this.#child(wait);
    if (wait.kind === 'hold') return this.#discard();
    const outcome = wait.kind === 'approval' ? 'expired' : 'done';
    return this.decide({
      ask: ({ waits }) => (waits.has(entity) ? { type: 'waitEnded', entity, outcome } : undefined),
    });
  }

  async #child(wait: WaitState): Promise<readonly Lease[]> {
    const { entity } = wait;
    let child = await this.#ports.store.findRun(wait.childRunId!);
    if (!child) {
      try {
        await this.#ports.startChild(this.#view, wait);
      } catch (thrown) {
        if (!(thrown instanceof AppError) || thrown.retryable) throw thrown;
        const error = { category: 'child', code: thrown.code, message: thrown.message, retryable: false };
        return this.decide({ ask: () => ({ type: 'waitEnded', entity, outcome: 'failed', error }) });
      }
    }
    const hasEnded = async (): Promise<boolean> => {
      child = await this.#ports.store.findRun(wait.childRunId!);
      return child?.status !== undefined && isTerminal(child.status);
    };
    if (!(await hasEnded())) {
      await this.#ports.work.release([this.#held], { delayMs: CHILD_POLL_MS });
      // It may have ended while the row was held, and then nobody could wake it.
      if (await hasEnded()) await this.#ports.work.wake(this.#held.runId, this.#held.unit);
      return [];
    }
    const [last] = await this.#ports.store.readEvents(wait.childRunId!, {
      types: ['RunCompleted', 'RunFailed', 'RunCancelled'],
    });
    const returned = await this.#childResult(wait, last?.payload?.['result']);
    if (child?.status === 'COMPLETED') {
      const result = await storeResult(
        this.#ports.artifacts,
        asChildResult(returned, wait.childRunId!),
        undefined,
        'child-result',
      );
      return this.decide({ ask: () => ({ type: 'waitEnded', entity, outcome: 'done', result }) });
    }
    const cause = last?.payload?.['error'] as { message?: string } | undefined;
    const message = `Child run ${wait.childRunId} ended ${child?.status}${cause?.message ? `: ${cause.message}` : '.'}`;
    const error = { category: 'child', code: 'CHILD_RUN_FAILED', message, retryable: false };
    return this.decide({ ask: () => ({ type: 'waitEnded', entity, outcome: 'failed', error }) });
  }

  async #childResult(wait: WaitState, last: unknown): Promise<unknown> {
    const step = wait.details?.['returnStep'];
    let stored = last;
    if (typeof step === 'string') {
      const done = await this.#ports.store.readEvents(wait.childRunId!, { types: ['StepCompleted'], entity: step });
      stored = done.at(-1)?.payload?.['result'];
    }
    return stored === undefined ? null : loadValue(this.#ports.artifacts, stored as never);
  }

  /** Decides under this unit's lease, which ends with the decision. */
  async decide(request: Pick<DecisionRequest, 'ask' | 'facts'>): Promise<readonly Lease[]> {
    const { room } = this.#ports;
    const result = await commitDecision(this.#ports, {
      ...request,
      view: this.#view,
      own: { unit: this.#held.unit, fence: this.#held.fence },
      engineAttempt: this.#held.deliveries,
      room: () => Math.max(1, room()),
    });
    if (result.done) return result.leases;
    if (result.why === 'lost') return [];
    if (result.why === 'rejected' && result.code !== 'INVALID_TRANSITION') {
      throw new AppError(result.code, result.message);
    }
    // The step ended without us (a cancellation, the end of its grace): what was done to the world stays known.
    await this.#keepOutcomes(request.facts ?? []);
    return this.#discard();
  }

  async #keepOutcomes(facts: readonly EventDraft[]): Promise<void> {
    const outcomes = facts.filter(({ eventType }) => /^Effect(Succeeded|Failed|Unknown)$/.test(eventType));
    if (outcomes.length > 0) await this.#ports.work.commit({ run: this.#view.run, facts: this.#stamp(outcomes) });
  }

  async park(place: UnitPlace, end: Extract<UnitEnd, { kind: 'parked' }>): Promise<readonly Lease[]> {
    return this.decide({ facts: end.facts, ask: () => ({ type: 'park', ...place, ...end.wait }) });
  }

  async #beginLoop(step: StepState, begun: readonly EventDraft[]): Promise<readonly Lease[]> {
    const { stepId, attempt } = step;
    const { artifacts } = this.#ports;
    const state = expectStored(this.#view.state, begun, new Date().toISOString());
    let values: Record<string, unknown> = {};
    for (;;) {
      const carried = step.carried?.list;
      const resolved = carried
        ? { items: await this.#items(carried) }
        : resolveLoop(this.#view.plan, state, stepId, values);
      if ('need' in resolved) {
        values = await fetchValues(artifacts, resolved.need, values);
        continue;
      }
      if ('error' in resolved) {
        const settled = { status: 'failed', error: resolved.error } as const;
        return this.decide({ facts: begun, ask: () => ({ type: 'stepSettled', stepId, attempt, settled }) });
      }
      const list = await storeResult(artifacts, resolved.items, undefined, 'loop-list');
      const count = resolved.items.length;
      return this.decide({ facts: begun, ask: () => ({ type: 'loopResolved', stepId, attempt, list, count }) });
    }
  }

  async #items(list: NonNullable<StepState['result']>): Promise<readonly unknown[]> {
    const known = ITEMS.get(list);
    if (known) return known;
    const items = (await loadValue(this.#ports.artifacts, list)) as unknown[];
    ITEMS.set(list, items);
    return items;
  }

  started(step: StepState): EventDraft {
    return {
      eventType: 'StepStarted',
      stepId: step.stepId,
      logicalAttemptId: step.attempt,
      payload: { startedAt: new Date().toISOString(), leaseOwner: this.#ports.owner },
    };
  }

  /** Looks a second time, with everything that others have appended, before it believes that the unit is gone. */
  async #find<T>(look: (state: RunState) => T | undefined): Promise<T | undefined> {
    const found = look(this.#view.state);
    if (found !== undefined) return found;
    await this.#ports.views.refresh(this.#view);
    return look(this.#view.state);
  }

  async #isHeldBack(): Promise<boolean> {
    if (this.#view.state.run.status !== 'PAUSED') return false;
    await this.#ports.views.refresh(this.#view);
    return this.#view.state.run.status === 'PAUSED';
  }

  async #discard(): Promise<readonly Lease[]> {
    await this.#ports.work.discard(this.#held);
    return [];
  }

  async #giveBack(): Promise<readonly Lease[]> {
    await this.#ports.work.release([this.#held]);
    return [];
  }

  #stamp(drafts: readonly EventDraft[]) {
    const emittedAt = new Date().toISOString();
    const engineAttemptId = this.#held.deliveries;
    return drafts.map((draft) => stampEvent(this.#view.run, { engineAttemptId, ...draft }, { emittedAt }));
  }

  host(place: UnitPlace, begun: readonly EventDraft[], isRedelivered: boolean, item?: unknown): UnitHost {
    const { work, store, owner, leaseMs } = this.#ports;
    const [view, held] = [this.#view, this.#held];
    const entity = unitEntity(place.stepId, place.index);
    return {
      view,
      place,
      item,
      begun,
      isRedelivered,
      engineAttempt: held.deliveries,
      signal: held.signal,
      record: async (facts) => {
        const events = this.#stamp(facts);
        const result = await work.commit({
          run: view.run,
          ...split(events),
          owner,
          leaseMs,
          work: [{ op: 'check', unit: held.unit, fence: held.fence }],
        });
        await faultPoint('record.after-commit');
        if (!result.ok) {
          if (result.reason !== 'EFFECT_TAKEN') held.lose();
          throw result.error;
        }
        view.stored(events, result.receipts);
      },
      recorded: async () => {
        const records: EventDraft[] = [];
        for (let afterSeq = 0; ; ) {
          const page = await store.readEvents(view.run.runId, { entity, afterSeq, limit: 1000 });
          records.push(...(page.filter((r) => r.logicalAttemptId === place.attempt) as EventDraft[]));
          if (page.length < 1000) return records;
          afterSeq = page.at(-1)!.runSeq;
        }
      },
      ensureLease: async (millis) => {
        if (held.leaseUntil - performance.now() >= millis) return true;
        const from = performance.now();
        const asked = Math.ceil(millis + leaseMs);
        const [renewed] = await work.renew([held], asked);
        if (!renewed?.held) return false;
        held.leaseUntil = from + asked;
        return true;
      },
      isPaused: async () => (await store.findRun(view.run.runId))?.status === 'PAUSED',
      findReceipt: (key) => work.findReceipt(view.run.tenantId, key),
    };
  }
}

/** Why the log cannot take an event as it is, however often it is sent. */
export function unstorable(thrown: unknown): ErrorInfo | undefined {
  if (!(thrown instanceof AppError)) return undefined;
  const { code, message } = thrown;
  if (code !== 'EVENT_TOO_LARGE' && code !== 'SCHEMA_VALIDATION_FAILED') return undefined;
  return { category: 'limit', code, message: message.slice(0, 2000), retryable: false };
}

/** What must be in the log whatever else is lost: that the unit began, and what was done to the world. */
function essential(facts: readonly EventDraft[]): EventDraft[] {
  return facts.filter(({ eventType }) => /^(StepStarted|LoopIteration(Scheduled|Started)|Effect)/.test(eventType));
}

/** The step attempt if it is to be run. */
export function openStep(state: RunState, stepId: string, attempt: number): StepState | undefined {
  const found = state.open.get(stepId);
  const isOpen = found?.attempt === attempt && (found.status === 'PENDING' || found.status === 'RUNNING');
  return isOpen && found.openWaits === 0 ? found : undefined;
}

const ITEMS = new WeakMap<object, readonly unknown[]>();

/** What a child returned, as templates of the parent read it: its fields at once, with status and id. */
function asChildResult(value: unknown, runId: string): unknown {
  const said = { status: 'COMPLETED', execution_id: runId };
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value, ...said };
  return { data: value, ...said };
}

type Stamped = ReturnType<typeof stampEvent>;

/** The store decided that an iteration is handed out; only then come the facts of whoever took it. */
function split(events: readonly Stamped[]): { opening?: readonly Stamped[]; facts: readonly Stamped[] } {
  if (events[0]?.eventType !== 'LoopIterationScheduled') return { facts: events };
  return { opening: events.slice(0, 1), facts: events.slice(1) };
}
