import type { EventDraft } from '../../kernel/commands.ts';
import { compilePlan } from '../../kernel/compile-plan.ts';
import type { RunState, StepState } from '../../kernel/state.ts';
import { faultPoint } from '../../lib/fault-point.ts';
import type { Lease } from '../../store/work.ts';
import type { UnitKey } from '../../store/work-unit.ts';
import { runUnit, type UnitEnd } from '../../worker/step-runner.ts';
import type { UnitPlace } from '../../worker/unit-host.ts';
import { leaseHost } from './lease-host.ts';
import { essential, type LeasedUnit, unstorable } from './leased-unit.ts';
import { beginLoop } from './loop-work.ts';

type StepKey = Extract<UnitKey, { kind: 'step' }>;
type SettledEnd = Extract<UnitEnd, { kind: 'settled' }>;

/** Runs a step from where its record stands to its end, to a wait or to the beginning of its loop. */
export async function runStep(unit: LeasedUnit, { stepId, attempt }: StepKey): Promise<readonly Lease[]> {
  const place: UnitPlace = { stepId, attempt };
  const step = await unit.find((state) => openStep(state, stepId, attempt));
  if (!step) return unit.discard();
  if (step.status === 'PENDING' && (await unit.isHeldBack())) return unit.giveBack();
  const begun: EventDraft[] = step.status === 'PENDING' ? [stepStarted(unit, step)] : [];
  const planned = compilePlan(unit.view.plan).steps.get(step.name)?.step;
  if (planned?.loop) return beginLoop(unit, step, begun);
  // Where its start may not be written later, nothing is called before it is stored.
  const isStrict = begun.length > 0 && !unit.ports.budget.failsOpen(['StepStarted']);
  if (isStrict) await leaseHost(unit, { place, begun: [], isRedelivered: false }).record(begun);
  const host = leaseHost(unit, { place, begun: isStrict ? [] : begun, isRedelivered: step.status === 'RUNNING' });
  const end = await runUnit(unit.ports.runner, host);
  await faultPoint('step.before-settle');
  if (end.kind === 'parked') return unit.park(place, end);
  return settleStep(unit, place, end);
}

/**
 * Records how a step ended, within the budget of writes. Over it, the old lease is burnt: either the end was stored, and
 * stands, or it can no longer be, and the attempt fails as soon as the store answers.
 */
export async function settleStep(unit: LeasedUnit, place: UnitPlace, end: SettledEnd): Promise<readonly Lease[]> {
  try {
    return await settleInTime(unit, place, end);
  } catch (thrown) {
    const error = unstorable(thrown);
    if (!error) throw thrown;
    // Delivered again it would come to the same: the step fails, with as little as there is to say.
    const settled = { status: 'failed', error } as const;
    return settleInTime(unit, place, { ...end, settled, set: {}, facts: essential(end.facts) });
  }
}

async function settleInTime(unit: LeasedUnit, place: UnitPlace, end: SettledEnd): Promise<readonly Lease[]> {
  const { stepId, attempt } = place;
  const { settled, set, facts } = end;
  const engineAttempt = unit.held.engineAttempt;
  const type = settled.status === 'completed' ? 'StepCompleted' : 'StepFailed';
  const writing = unit.decide({
    facts,
    ask: () => ({ type: 'stepSettled', stepId, attempt, engineAttempt, settled, set }),
  });
  if (!unit.ports.budget.failsStep([type])) return writing;
  const result = await unit.ports.budget.within(writing);
  if (result !== 'late') return result;
  return (await overBudget(unit, place, facts)) ?? writing;
}

/** Undefined when the late write was stored after all. */
export async function overBudget(
  unit: LeasedUnit,
  place: UnitPlace,
  facts: readonly EventDraft[],
): Promise<readonly Lease[] | undefined> {
  const { stepId, attempt } = place;
  const from = performance.now();
  const fence = await unit.ports.work.burn(unit.held, unit.ports.leaseMs);
  if (fence === undefined) return undefined;
  unit.held.moveTo({ unit: unit.held.unit, fence }, from + unit.ports.leaseMs);
  await unit.ports.refresh(unit.view);
  const message = `The end of the step was not stored within ${unit.ports.budget.millis} ms.`;
  const error = { category: 'store', code: 'WRITE_BUDGET_EXCEEDED', message, retryable: true };
  const settled = { status: 'failed', error } as const;
  const begun = essential(facts);
  const engineAttempt = unit.held.engineAttempt;
  return unit.decide({ facts: begun, ask: () => ({ type: 'stepSettled', stepId, attempt, engineAttempt, settled }) });
}

export function stepStarted({ ports }: LeasedUnit, step: StepState): EventDraft {
  return {
    eventType: 'StepStarted',
    stepId: step.stepId,
    logicalAttemptId: step.attempt,
    payload: { startedAt: new Date().toISOString(), leaseOwner: ports.owner },
  };
}

/** The step attempt if it is to be run. */
export function openStep(state: RunState, stepId: string, attempt: number): StepState | undefined {
  const found = state.open.get(stepId);
  const isOpen = found?.attempt === attempt && (found.status === 'PENDING' || found.status === 'RUNNING');
  return isOpen && found.openWaits === 0 ? found : undefined;
}
