import { mustStop } from '../../kernel/open-work.ts';
import type { Lease } from '../../store/work.ts';
import type { RunView } from '../../worker/run-view.ts';
import { giveUpCommand } from './give-up.ts';
import type { HeldUnit } from './held-unit.ts';
import { LeasedUnit } from './leased-unit.ts';
import { endLoop, runIteration } from './loop-work.ts';
import { PlanUnreadable } from './run-views.ts';
import { StepChain } from './step-chain.ts';
import { runStep } from './step-work.ts';
import type { UnitPorts } from './unit-ports.ts';
import { runWait } from './wait-work.ts';

/** How soon a unit of a paused run is looked at again whose plan cannot be read. */
const PAUSED_DELAY_MS = 60_000;

/** Does what a unit asks for, and gives the leases of what follows. */
export async function doUnit(ports: UnitPorts, held: HeldUnit): Promise<readonly Lease[]> {
  const { key } = held;
  if (!key) return [];
  if (key.kind === 'relay') {
    await ports.relaySignal(held.runId, key.signalType, key.signalId);
    await ports.work.discard(held);
    return [];
  }
  let view: RunView;
  try {
    view = await ports.views.get(held.runId);
  } catch (thrown) {
    if (!(thrown instanceof PlanUnreadable)) throw thrown;
    return giveUp(ports, held, thrown);
  }
  // Another process may have had the unit before: what is known here of the run may be older than what that one recorded.
  if (held.deliveries > 1 || held.engineAttempt > 1) await ports.views.refresh(view);
  const unit = new LeasedUnit(ports, held, view);
  switch (key.kind) {
    case 'step':
      return ports.runAhead ? new StepChain(unit).run(key) : runStep(unit, key);
    case 'iteration':
      return runIteration(unit, key);
    case 'loopEnd':
      return endLoop(unit, key);
    case 'wait':
      return runWait(unit, key.entity);
    case 'grace':
      return unit.decide({ ask: (state) => (mustStop(state) ? { type: 'cancelGraceOver' } : undefined) });
  }
}

/** Ends a run whose plan cannot be read. A paused one may be cancelled, and is looked at again later. */
async function giveUp(ports: UnitPorts, held: HeldUnit, problem: PlanUnreadable): Promise<readonly Lease[]> {
  const view = await ports.views.withoutPlan(held.runId);
  const unit = new LeasedUnit(ports, held, view);
  if (view.state.run.status !== 'PAUSED') return unit.decide({ ask: (state) => giveUpCommand(state, problem) });
  await ports.work.release([held], { delayMs: PAUSED_DELAY_MS, error: problem.message });
  return [];
}
