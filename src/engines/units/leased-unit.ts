import type { RunEventWrite } from '../../contracts/envelope.ts';
import { AppError } from '../../contracts/errors.ts';
import type { ErrorInfo } from '../../contracts/values.ts';
import type { EventDraft } from '../../kernel/commands.ts';
import type { RunState } from '../../kernel/state.ts';
import { stampEvent } from '../../store/stamp-event.ts';
import type { Lease } from '../../store/work.ts';
import type { RunView } from '../../worker/run-view.ts';
import type { UnitEnd } from '../../worker/step-runner.ts';
import type { UnitPlace } from '../../worker/unit-host.ts';
import { commitDecision, type DecisionRequest } from './commit-decision.ts';
import type { HeldUnit } from './held-unit.ts';
import type { UnitPorts } from './unit-ports.ts';

/** A unit under its lease: what every kind of work looks up, decides and gives back in the same way. */
export class LeasedUnit {
  readonly ports: UnitPorts;
  readonly held: HeldUnit;
  readonly view: RunView;

  constructor(ports: UnitPorts, held: HeldUnit, view: RunView) {
    this.ports = ports;
    this.held = held;
    this.view = view;
  }

  /** Looks a second time, with everything that others have appended, before it believes that the unit is gone. */
  async find<T>(look: (state: RunState) => T | undefined): Promise<T | undefined> {
    const found = look(this.view.state);
    if (found !== undefined) return found;
    await this.ports.views.refresh(this.view);
    return look(this.view.state);
  }

  async isHeldBack(): Promise<boolean> {
    if (this.view.state.run.status !== 'PAUSED') return false;
    await this.ports.views.refresh(this.view);
    return this.view.state.run.status === 'PAUSED';
  }

  async discard(): Promise<readonly Lease[]> {
    await this.ports.work.discard(this.held);
    return [];
  }

  async giveBack(): Promise<readonly Lease[]> {
    await this.ports.work.release([this.held]);
    return [];
  }

  stamp(drafts: readonly EventDraft[]) {
    const emittedAt = new Date().toISOString();
    const engineAttemptId = this.held.engineAttempt;
    const stamp = { emittedAt, engineAttemptId };
    return drafts.map((draft) => stampEvent(this.view.run, draft, stamp));
  }

  /** Decides under this unit's lease, which ends with the decision. */
  async decide(request: Pick<DecisionRequest, 'ask' | 'facts'>): Promise<readonly Lease[]> {
    const { room } = this.ports;
    const result = await commitDecision(this.ports, {
      ...request,
      view: this.view,
      own: { unit: this.held.unit, fence: this.held.fence },
      engineAttempt: this.held.engineAttempt,
      execution: this.held.execution,
      room,
    });
    if (result.done) return result.leases;
    if (result.why === 'lost') return [];
    if (result.why === 'rejected' && result.code !== 'INVALID_TRANSITION') {
      throw new AppError(result.code, result.message);
    }
    // The step ended without us (a cancellation, the end of its grace): what was done to the world stays known.
    await this.keepOutcomes(request.facts ?? []);
    return this.discard();
  }

  async keepOutcomes(facts: readonly EventDraft[]): Promise<void> {
    const outcomes = facts.filter(({ eventType }) => /^Effect(Succeeded|Failed|Unknown)$/.test(eventType));
    if (outcomes.length > 0) await this.ports.work.commit({ run: this.view.run, facts: this.stamp(outcomes) });
  }

  async park(place: UnitPlace, end: Extract<UnitEnd, { kind: 'parked' }>): Promise<readonly Lease[]> {
    return this.decide({
      facts: end.facts,
      ask: () => ({ type: 'park', ...place, engineAttempt: this.held.engineAttempt, ...end.wait }),
    });
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
export function essential(facts: readonly EventDraft[]): EventDraft[] {
  return facts.filter(({ eventType }) => /^(StepStarted|LoopIteration(Scheduled|Started)|Effect)/.test(eventType));
}

/** The store decided that an iteration is handed out; only then come the facts of whoever took it. */
export function openingFirst(events: readonly RunEventWrite[]): {
  opening?: readonly RunEventWrite[];
  facts: readonly RunEventWrite[];
} {
  if (events[0]?.eventType !== 'LoopIterationScheduled') return { facts: events };
  return { opening: events.slice(0, 1), facts: events.slice(1) };
}
