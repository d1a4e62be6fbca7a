import { mustStop } from '../../kernel/open-work.ts';
import type { Lease } from '../../store/work.ts';
import type { HeldUnit } from './held-unit.ts';
import { LeasedUnit } from './leased-unit.ts';
import { endLoop, runIteration } from './loop-work.ts';
import { StepChain } from './step-chain.ts';
import { runStep } from './step-work.ts';
import type { UnitPorts } from './unit-ports.ts';
import { runWait } from './wait-work.ts';

/** Does what a unit asks for, and gives the leases of what follows. */
export async function doUnit(ports: UnitPorts, held: HeldUnit): Promise<readonly Lease[]> {
  const { key } = held;
  if (!key) return [];
  if (key.kind === 'relay') {
    await ports.relaySignal(held.runId, key.signalType, key.signalId);
    await ports.work.discard(held);
    return [];
  }
  const view = await ports.views.get(held.runId);
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
