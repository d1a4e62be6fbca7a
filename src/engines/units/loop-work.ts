import type { EventDraft } from '../../kernel/commands.ts';
import { stepNameOf, unitEntity } from '../../kernel/entity-path.ts';
import { isUncatchable } from '../../kernel/failures.ts';
import { isLoopFailing } from '../../kernel/loops.ts';
import { mustStopStep, resolveLoop } from '../../kernel/open-work.ts';
import type { StepState } from '../../kernel/state.ts';
import { some } from '../../kernel/step-state.ts';
import { faultPoint } from '../../lib/fault-point.ts';
import type { Lease } from '../../store/work.ts';
import { loopKey, type UnitKey } from '../../store/work-unit.ts';
import { expectStored } from '../../worker/run-view.ts';
import { runUnit, type UnitEnd } from '../../worker/step-runner.ts';
import { fetchValues, loadValue, storeResult } from '../../worker/store-result.ts';
import type { UnitPlace } from '../../worker/unit-host.ts';
import { leaseHost } from './lease-host.ts';
import { essential, type LeasedUnit, openingFirst, unstorable } from './leased-unit.ts';
import { loopResult } from './loop-result.ts';

type IterationKey = Extract<UnitKey, { kind: 'iteration' }>;
type LoopEndKey = Extract<UnitKey, { kind: 'loopEnd' }>;
type SettledEnd = Extract<UnitEnd, { kind: 'settled' }>;

/** Resolves the list of a step with a loop, and hands out its first iterations. */
export async function beginLoop(
  unit: LeasedUnit,
  step: StepState,
  begun: readonly EventDraft[],
): Promise<readonly Lease[]> {
  const { stepId, attempt } = step;
  const { artifacts } = unit.ports;
  const planned = unit.view.plan.steps.find((candidate) => candidate.stepId === step.name);
  // A cursor has no list: its iterations draw from it until one finds nothing.
  if (planned?.loop?.mode === 'cursor') {
    return unit.decide({ facts: begun, ask: () => ({ type: 'loopResolved', stepId, attempt }) });
  }
  const state = expectStored(unit.view.state, begun, new Date().toISOString());
  let values: Record<string, unknown> = {};
  for (;;) {
    const carried = step.carried?.list;
    const resolved = carried
      ? { items: await itemsOf(unit, carried) }
      : resolveLoop(unit.view.plan, state, stepId, values);
    if ('need' in resolved) {
      values = await fetchValues(artifacts, resolved.need, values);
      continue;
    }
    if ('error' in resolved) {
      const settled = { status: 'failed', error: resolved.error } as const;
      return unit.decide({ facts: begun, ask: () => ({ type: 'stepSettled', stepId, attempt, settled }) });
    }
    const list = await storeResult(artifacts, resolved.items, undefined, 'loop-list');
    const count = resolved.items.length;
    return unit.decide({ facts: begun, ask: () => ({ type: 'loopResolved', stepId, attempt, list, count }) });
  }
}

async function itemsOf(unit: LeasedUnit, list: NonNullable<StepState['result']>): Promise<readonly unknown[]> {
  const known = ITEMS.get(list);
  if (known) return known;
  const items = (await loadValue(unit.ports.artifacts, list)) as unknown[];
  ITEMS.set(list, items);
  return items;
}

const ITEMS = new WeakMap<object, readonly unknown[]>();

/** Runs one iteration of a loop. */
export async function runIteration(
  unit: LeasedUnit,
  { stepId, attempt, index }: IterationKey,
): Promise<readonly Lease[]> {
  const loop = await unit.find(({ loops }) => {
    const found = loops.get(stepId);
    if (found?.attempt !== attempt) return undefined;
    // A sequence sees what the iteration before it wrote.
    return found.mode === 'sequential' && unit.view.isBehind ? undefined : found;
  });
  const entry = loop?.open.get(index);
  if (!loop || (!entry && index < loop.next) || (entry?.openWaits ?? 0) > 0) return unit.discard();
  if (!entry?.started && (await unit.isHeldBack())) return unit.giveBack();
  const place: UnitPlace = { stepId, attempt, index };
  const entity = unitEntity(stepId, index);
  const base = { stepId, entity, logicalAttemptId: attempt };
  const begun: EventDraft[] = [];
  // Of an index below one that was recorded before it, nobody has said yet that it was handed out.
  if (!entry?.scheduled && !entry?.started)
    begun.push({ ...base, eventType: 'LoopIterationScheduled', payload: { index } });
  if (!entry?.started) {
    const payload = { index, startedAt: new Date().toISOString(), leaseOwner: unit.ports.owner };
    begun.push({ ...base, eventType: 'LoopIterationStarted', payload });
  }
  const items = loop.list === undefined ? [] : await itemsOf(unit, loop.list);
  const isRedelivered = entry?.started === true || unit.held.deliveries > 1;
  const end = await runUnit(unit.ports.runner, leaseHost(unit, { place, begun, isRedelivered, item: items[index] }));
  await faultPoint('iteration.before-settle');
  if (end.kind === 'parked') return unit.park(place, end);
  try {
    return await endIteration(unit, place, end);
  } catch (thrown) {
    const error = unstorable(thrown);
    if (!error) throw thrown;
    const settled = { status: 'failed', error } as const;
    return endIteration(unit, place, { ...end, settled, set: {}, facts: essential(end.facts) });
  }
}

/** Iteration facts commute: no head is asked for, and the store hands out what comes next. */
async function endIteration(unit: LeasedUnit, place: UnitPlace, end: SettledEnd): Promise<readonly Lease[]> {
  const { stepId, attempt, index } = place;
  const { settled, set, facts } = end;
  const said = {
    index,
    durationMs: settled.durationMs,
    ...(settled.outcome === undefined ? {} : { outcome: settled.outcome }),
    ...(settled.artifacts === undefined ? {} : { artifacts: settled.artifacts }),
    ...(Object.keys(set).length === 0 ? {} : { set: { ...set } }),
    ...(settled.exhausted ? { exhausted: true } : {}),
  };
  const entity = unitEntity(stepId, index);
  const ending: EventDraft =
    settled.status === 'completed'
      ? {
          eventType: 'LoopIterationDone',
          stepId,
          entity,
          logicalAttemptId: attempt,
          payload: { ...said, ...some('result', settled.result), ...some('rows', settled.rows) },
        }
      : {
          eventType: 'LoopIterationFailed',
          stepId,
          entity,
          logicalAttemptId: attempt,
          payload: { ...said, error: settled.error },
        };
  const fails =
    settled.status === 'failed' && (failureMode(unit, stepId) === 'fail_fast' || isUncatchable(settled.error));
  const stop = fails || settled.exhausted === true;
  const events = unit.stamp([...facts, ending]);
  const result = await unit.ports.work.commit({
    run: unit.view.run,
    ...openingFirst(events),
    ...(unit.ports.room() > 0 ? { owner: unit.ports.owner } : {}),
    leaseMs: unit.ports.handMs ?? unit.ports.leaseMs,
    work: [{ op: 'delete', unit: unit.held.unit, fence: unit.held.fence }],
    loops: [{ op: 'ended', loop: loopKey(stepId, attempt), stop }],
  });
  await faultPoint('iteration.after-commit');
  if (result.ok) {
    unit.view.stored(events, result.receipts);
    unit.ports.scheduled?.(result.handouts);
    return result.handouts;
  }
  if (result.reason !== 'LEASE_LOST') await unit.keepOutcomes(facts);
  return [];
}

function failureMode({ view }: LeasedUnit, stepId: string): 'fail_fast' | 'best_effort' {
  const name = view.state.open.get(stepId)?.name;
  return view.plan.steps.find((step) => step.stepId === name)?.failure?.mode ?? 'fail_fast';
}

/** Gathers the results of a loop whose last iteration has ended. */
export async function endLoop(unit: LeasedUnit, { stepId, attempt }: LoopEndKey): Promise<readonly Lease[]> {
  // Iterations end on other workers without this one noticing: what it knows of the loop may be old and yet look whole.
  await unit.ports.views.refresh(unit.view);
  const loop = await unit.find(({ loops }) => loops.get(stepId));
  if (loop?.attempt !== attempt) return unit.discard();
  const { plan, state } = unit.view;
  const planned = plan.steps.find((step) => step.stepId === stepNameOf(stepId));
  if (isLoopFailing(planned, loop) || mustStopStep(plan, state, stepId))
    return unit.decide({ ask: () => ({ type: 'tick' }) });
  const list = await loopResult(unit.ports.store, unit.ports.artifacts, unit.view, loop);
  const result = await storeResult(unit.ports.artifacts, list, undefined, 'loop-result');
  return unit.decide({ ask: () => ({ type: 'loopSettled', stepId, attempt, result }) });
}
