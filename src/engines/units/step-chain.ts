import type { RunEventWrite } from '../../contracts/envelope.ts';
import { AppError } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { EventDraft } from '../../kernel/commands.ts';
import { compilePlan } from '../../kernel/compile-plan.ts';
import { decide } from '../../kernel/decide.ts';
import { openWork } from '../../kernel/open-work.ts';
import type { RunState } from '../../kernel/state.ts';
import { faultPoint } from '../../lib/fault-point.ts';
import { nextTurn } from '../../lib/next-turn.ts';
import { stampEvent } from '../../store/stamp-event.ts';
import type { Lease } from '../../store/work.ts';
import { parseUnit, type UnitKey, unitKey } from '../../store/work-unit.ts';
import { expectStored, movesHead, type RunView } from '../../worker/run-view.ts';
import { runUnit, type UnitEnd } from '../../worker/step-runner.ts';
import type { UnitHost } from '../../worker/unit-host.ts';
import { follow } from './commit-decision.ts';
import type { HeldUnit } from './held-unit.ts';
import { leaseHost } from './lease-host.ts';
import { type LeasedUnit, unstorable } from './leased-unit.ts';
import { openStep, overBudget, runStep, settleStep, stepStarted } from './step-work.ts';
import type { UnitPorts } from './unit-ports.ts';
import { type WorkPlan, workChanges } from './work-changes.ts';

/** So many steps, or so long, may be decided and not yet stored. */
const MAX_AHEAD = 32;
const MAX_AHEAD_MS = 20;
/**
 * So long may a line of steps that wait for nothing keep the process from what does: answers of the database, timers,
 * heartbeats.
 */
const MAX_TURN_MS = 3;

type StepKey = Extract<UnitKey, { kind: 'step' }>;

/** One step that was taken and decided about, and is not stored yet. */
interface Piece {
  readonly facts: readonly RunEventWrite[];
  readonly decision: readonly RunEventWrite[];
  readonly plan: WorkPlan;
  readonly ends: boolean;
  readonly at: number;
  readonly step: { readonly stepId: string; readonly attempt: number };
  readonly drafts: readonly EventDraft[];
  readonly from: RunState;
  readonly to: RunState;
  /** How the step ended, where it ran on what was stored: then only the decision came too late, not the step. */
  readonly grounded: Extract<UnitEnd, { kind: 'settled' }> | undefined;
}

/** A batch was refused: everything that was not stored is thrown away, and nothing of it is decided again. */
class Refused extends Error {
  readonly isLost: boolean;
  readonly first: Piece | undefined;

  /** What follows instead, if that was decided already. */
  readonly leases: readonly Lease[];

  constructor(isLost: boolean, first?: Piece, leases: readonly Lease[] = []) {
    super('what ran ahead was refused');
    this.leases = leases;
    this.isLost = isLost;
    this.first = first;
  }
}

/**
 * A line of steps that this worker takes one after the other. The next step does not wait for the commit of the one
 * before it: commits follow in order, one at a time, each with everything that was decided meanwhile. Whatever must not
 * happen twice waits for them: an effect, code that nobody declared, a wait, the end of the line.
 */
export class StepChain {
  readonly #ports: UnitPorts;
  readonly #held: HeldUnit;
  readonly #view: RunView;
  readonly #unit: LeasedUnit;
  /** The state with everything that was decided here, stored or not. */
  #state: RunState;
  /** The head of the stored part of that state. The view may know more: others in this process use it too. */
  #head: number;
  #seenSeq: number;
  #pending: Piece[] = [];
  #sending: Promise<void> | undefined;
  #refused: Error | undefined;
  #isGrounded = true;
  #leases: readonly Lease[] = [];
  /** How often the first step was delivered; those after it are delivered here, once. */
  #deliveries: number;

  constructor(unit: LeasedUnit) {
    const { ports, held, view } = unit;
    this.#ports = ports;
    this.#held = held;
    this.#view = view;
    this.#unit = unit;
    this.#state = view.state;
    this.#head = view.head;
    this.#seenSeq = view.state.lastEventSeq;
    this.#deliveries = held.deliveries;
  }

  async run(first: StepKey): Promise<readonly Lease[]> {
    const step = openStep(this.#state, first.stepId, first.attempt);
    const isPlain = step?.status === 'PENDING' && this.#isPlain(step.name) && this.#state.run.status === 'RUNNING';
    const mayStart = this.#ports.budget.failsOpen(['StepStarted']);
    if (!isPlain || !mayStart || this.#view.isBehind) return runStep(this.#unit, first);
    try {
      return await this.#line(first);
    } catch (thrown) {
      if (!(thrown instanceof Refused)) {
        // Something of the line cannot be stored as it is: taken again step by step, the one at fault fails.
        const { key } = this.#held;
        if (!unstorable(thrown) || key?.kind !== 'step') throw thrown;
        await this.#ports.refresh(this.#view);
        return runStep(this.#unit, key);
      }
      if (thrown.isLost) return thrown.leases;
      await this.#ports.refresh(this.#view);
      const { first: piece } = thrown;
      if (piece?.grounded) return this.#leaveLine(piece.step.stepId, piece.step.attempt, piece.grounded);
      // The lease is that of the first step that was not stored: it is taken again from the log as it is.
      const { key } = this.#held;
      return key?.kind === 'step' ? runStep(this.#unit, key) : [];
    }
  }

  async #line(first: StepKey): Promise<readonly Lease[]> {
    let key: StepKey | undefined = first;
    let turnBegan = performance.now();
    while (key) {
      const { stepId, attempt }: StepKey = key;
      const step = openStep(this.#state, stepId, attempt);
      if (!step) throw new AppError('INTERNAL', `Step '${stepId}' is not open.`);
      this.#isGrounded = !this.#sending && this.#pending.length === 0;
      const end = await runUnit(this.#ports.runner, this.#host(stepId, attempt, [stepStarted(this.#unit, step)]));
      await faultPoint('step.before-settle');
      const piece = end.kind === 'settled' ? this.#decide(stepId, attempt, end) : undefined;
      if (!piece) return this.#leaveLine(stepId, attempt, end);
      this.#pending.push(piece);
      this.#pump();
      key = this.#next(piece);
      const oldest = this.#pending[0]?.at ?? Number.POSITIVE_INFINITY;
      const now = performance.now();
      if (!key || this.#pending.length >= MAX_AHEAD || now - oldest > MAX_AHEAD_MS) await this.#drain();
      else if (now - turnBegan > MAX_TURN_MS) {
        await nextTurn();
        turnBegan = performance.now();
      }
      if (this.#refused) throw this.#refused;
    }
    return this.#leases;
  }

  /** The step's end cannot be decided ahead: it waits for what was decided before, and goes the plain way. */
  async #leaveLine(stepId: string, attempt: number, end: UnitEnd): Promise<readonly Lease[]> {
    if (!this.#refused) await this.#drain();
    if (end.kind === 'parked') return this.#unit.park({ stepId, attempt }, end);
    return settleStep(this.#unit, { stepId, attempt }, end);
  }

  #decide(stepId: string, attempt: number, end: Extract<UnitEnd, { kind: 'settled' }>): Piece | undefined {
    const { settled, set, facts } = end;
    const now = Date.now();
    const emittedAt = new Date(now).toISOString();
    const from = this.#state;
    const engineAttempt = this.#deliveries;
    const before = expectStored(from, facts, emittedAt, engineAttempt);
    this.#deliveries = 1;
    const command = { type: 'stepSettled', stepId, attempt, engineAttempt, settled, set } as const;
    const decision = decide(this.#view.plan, before, { ...command, now: emittedAt, random: Math.random() });
    if (!('events' in decision)) return undefined;
    const { events } = decision;
    const after = expectStored(before, events, emittedAt);
    const own = { unit: unitKey({ kind: 'step', stepId, attempt }), fence: 0 };
    const changes = workChanges(events, {
      before,
      after,
      own,
      room: this.#ports.room(),
      graceMs: this.#ports.graceMs,
      now,
    });
    // Its own row goes with the commit: it may never have been written.
    const plan = { ...changes, work: changes.work.slice(1) };
    this.#state = after;
    const { run } = this.#view;
    const byWorker = { emittedAt, engineAttemptId: engineAttempt };
    const byEngine = { emittedAt };
    const { status } = after.run;
    const ends = status !== null && isTerminal(status);
    return {
      facts: facts.map((draft) => stampEvent(run, draft, byWorker)),
      decision: events.map((draft) => stampEvent(run, draft, byEngine)),
      plan,
      ends,
      at: performance.now(),
      step: { stepId, attempt },
      drafts: facts,
      from,
      to: after,
      grounded: this.#isGrounded ? end : undefined,
    };
  }

  /** The step that follows, if it is the only thing left to do in the run, and a plain one. */
  #next({ plan, ends }: Piece): StepKey | undefined {
    if (ends || plan.stops || this.#held.signal.aborted || this.#ports.isStopping()) return undefined;
    const [insert, more] = plan.work.filter((change) => change.op === 'insert');
    if (insert?.op !== 'insert' || more || !insert.lease || plan.work.length > 1) return undefined;
    const key = parseUnit(insert.unit);
    if (key?.kind !== 'step' || openWork(this.#state).length !== 1) return undefined;
    const name = this.#state.open.get(key.stepId)?.name;
    return name !== undefined && this.#isPlain(name) ? key : undefined;
  }

  #isPlain(name: string): boolean {
    const step = compilePlan(this.#view.plan).steps.get(name)?.step;
    return step !== undefined && step.loop === undefined;
  }

  /**
   * Sends what is pending unless something is on its way; whatever gathers meanwhile goes with the next commit. It goes with
   * the next turn of the event loop: steps that wait for nothing are then stored together, and others lose nothing.
   */
  #pump(): void {
    if (this.#sending || this.#refused || this.#pending.length === 0) return;
    this.#sending = nextTurn()
      .then(() => this.#send())
      .catch((error: unknown) => {
        this.#refused ??= error as Error;
      })
      .finally(() => {
        this.#sending = undefined;
        this.#pump();
      });
  }

  async #send(): Promise<void> {
    const pieces = this.#pending;
    this.#pending = [];
    const last = pieces.at(-1)!;
    const { view, ports, held } = { view: this.#view, ports: this.#ports, held: this.#held };
    const work = [{ op: 'delete', unit: held.unit, fence: held.fence } as const, ...last.plan.work];
    const from = performance.now();
    await faultPoint('ahead.before-commit');
    const writing = ports.work.commit({
      run: view.run,
      ahead: pieces,
      expectedHead: this.#head,
      seenSeq: this.#seenSeq,
      owner: ports.owner,
      leaseMs: ports.leaseMs,
      work,
      loops: last.plan.loops,
    });
    const answer = await ports.budget.within(writing);
    await faultPoint('ahead.after-commit');
    if (answer === 'late') {
      const leases = await overBudget(this.#unit, pieces[0]!.step, pieces[0]!.drafts);
      if (leases) throw new Refused(true, undefined, leases);
    }
    const result = answer === 'late' ? await writing : answer;
    if (!result.ok) {
      view.take(result.missing);
      throw new Refused(result.reason === 'LEASE_LOST', pieces[0]);
    }
    const events = pieces.flatMap(({ facts, decision }) => [...facts, ...decision]);
    view.stored(events, result.receipts, { from: pieces[0]!.from, to: last.to });
    const newest = events.findLastIndex(({ eventType }) => movesHead(eventType));
    if (newest >= 0) this.#head = Math.max(this.#head, result.receipts[newest]!.runSeq);
    this.#seenSeq = Math.max(this.#seenSeq, result.receipts.at(-1)!.runSeq);
    this.#leases = result.leases;
    const [lease] = result.leases;
    // Only the unit that the line goes on with is held here; at its end the leases are the caller's.
    if (lease && result.leases.length === 1) held.moveTo(lease, from + ports.leaseMs);
    for (const { plan, ends } of pieces) follow(ports, view, { ...plan, ends, commit: { work: plan.work } });
  }

  /** Waits until everything that was decided is stored. */
  async #drain(): Promise<void> {
    while (this.#sending) await this.#sending;
    if (this.#refused) throw this.#refused;
  }

  /** The host of a step that runs ahead: whatever touches the store waits for the commits before it. */
  #host(stepId: string, attempt: number, begun: readonly EventDraft[]): UnitHost {
    const chain = this;
    const plain = leaseHost(this.#unit, { place: { stepId, attempt }, begun, isRedelivered: false });
    const after = <A extends readonly unknown[], T>(work: (...given: A) => Promise<T>) => {
      return async (...given: A): Promise<T> => {
        await chain.#drain();
        chain.#isGrounded = true;
        const result = await work(...given);
        // What was recorded meanwhile is part of the state from which the step's end is decided.
        chain.#state = chain.#view.state;
        chain.#head = chain.#view.head;
        chain.#seenSeq = chain.#state.lastEventSeq;
        return result;
      };
    };
    return {
      ...plain,
      view: {
        run: this.#view.run,
        plan: this.#view.plan,
        get state() {
          return chain.#state;
        },
      },
      record: after(plain.record),
      recorded: after(plain.recorded),
      ensureLease: after(plain.ensureLease),
      isPaused: after(plain.isPaused),
      findReceipt: after(plain.findReceipt),
    };
  }
}
