import { mustStop } from '../../kernel/open-work.ts';
import type { Lease } from '../../store/work.ts';
import type { HeldUnit } from './held-unit.ts';
import { StepChain } from './step-chain.ts';
import { type UnitPorts, UnitWork } from './unit-work.ts';

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
  const unit = new UnitWork(ports, held, view);
  switch (key.kind) {
    case 'step':
      return ports.runAhead ? new StepChain(ports, held, view, unit).run(key) : unit.step(key);
    case 'iteration':
      return unit.iteration(key);
    case 'loopEnd':
      return unit.loopEnd(key);
    case 'wait':
      return unit.wait(key.entity);
    case 'grace':
      return unit.decide({ ask: (state) => (mustStop(state) ? { type: 'cancelGraceOver' } : undefined) });
  }
}
