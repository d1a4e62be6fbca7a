import type { Plan, PlanStep } from '../../contracts/plan.ts';
import { isTerminal } from '../../contracts/states.ts';
import { stepNameOf } from '../../kernel/entity-path.ts';
import { isLoopFailing } from '../../kernel/loops.ts';
import { mustStop, mustStopStep, openWork } from '../../kernel/open-work.ts';
import type { RunState } from '../../kernel/state.ts';
import type { RepairRequest } from '../../store/work.ts';
import { loopKey, unitKey } from '../../store/work-unit.ts';
import type { RunView } from '../../worker/run-view.ts';
import type { LedgerEnginePorts } from '../ledger-engine.ts';
import { commitDecision } from './commit-decision.ts';
import { giveUpCommand } from './give-up.ts';
import { PlanUnreadable } from './run-views.ts';

/** Makes the rows of work of a run again from its log. How many were missing. */
export async function repairRun(ports: LedgerEnginePorts, runId: string): Promise<number> {
  let view: RunView;
  try {
    view = await ports.views.get(runId);
  } catch (thrown) {
    if (!(thrown instanceof PlanUnreadable)) throw thrown;
    const bare = await ports.views.withoutPlan(runId);
    // Nobody ever asked an engine for this run: somebody writes its log by hand, and there is nothing to put back or to end.
    if (bare.state.run.status === null) throw thrown;
    await commitDecision(ports, { view: bare, lock: true, ask: (state) => giveUpCommand(state, thrown) });
    return 0;
  }
  for (;;) {
    await ports.views.refresh(view);
    const { status } = view.state.run;
    if (status === null || isTerminal(status)) return 0;
    // What follows from the log by itself, should somebody have died before deciding it.
    await commitDecision(ports, { view, ask: () => ({ type: 'tick' }) });
    const added = await ports.work.repair(runId, rowsOf(view.plan, view.state, ports.graceMs));
    if (added === undefined) continue;
    if (added > 0) ports.signals.work();
    return added;
  }
}

function rowsOf(plan: Plan, state: RunState, graceMs: number): RepairRequest {
  const isPaused = state.run.status === 'PAUSED';
  const units = openWork(state)
    .filter((unit) => unit.kind !== 'wait' || unit.wait === 'child' || unit.dueAt !== undefined)
    .map((unit) => ({
      unit: unitKey(unit),
      ...('dueAt' in unit && unit.dueAt !== undefined ? { dueAt: unit.dueAt } : {}),
      held: isPaused && unit.kind !== 'wait',
      ...('taken' in unit && unit.taken !== undefined ? { taken: unit.taken } : {}),
    }));
  if (mustStop(state)) {
    units.push({ unit: 'g:', dueAt: new Date(Date.now() + graceMs).toISOString(), held: false });
  }
  const loops = state.loops.values().map((loop) => ({
    loop: loopKey(loop.stepId, loop.attempt),
    next: loop.next,
    total: loop.count ?? 2_000_000_000,
    inFlight: loop.open.size,
    maxInFlight: loop.maxInFlight ?? 1,
    skip: [...loop.carried],
    stopped:
      loop.exhausted || mustStopStep(plan, state, loop.stepId) || isLoopFailing(plannedStep(plan, loop.stepId), loop),
  }));
  return { atSeq: state.lastEventSeq, units, loops };
}

const plannedStep = (plan: Plan, stepId: string): PlanStep | undefined =>
  plan.steps.find((step) => step.stepId === stepNameOf(stepId));
