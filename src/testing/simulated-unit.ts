import type { Plan } from '../contracts/plan.ts';
import { stepNameOf, unitEntity } from '../kernel/entity-path.ts';
import type { WorkUnit } from '../kernel/open-work.ts';
import type { PipelineContext } from '../kernel/pipeline-scope.ts';
import type { RunState } from '../kernel/state.ts';

/** A unit of work in a worker's hands. */
export class SimulatedUnit {
  readonly stepId: string;
  readonly step: string;
  readonly attempt: number;
  readonly index: number | undefined;
  readonly entity: string;
  readonly #plan: Plan;
  readonly #item: unknown;

  constructor(plan: Plan, state: RunState, stepId: string, attempt: number, index: number | undefined) {
    this.#plan = plan;
    this.stepId = stepId;
    this.step = stepNameOf(stepId);
    this.attempt = attempt;
    this.index = index;
    this.entity = unitEntity(stepId, index);
    const list = state.loops.get(stepId)?.list;
    const items = list && 'value' in list && Array.isArray(list.value) ? list.value : [];
    this.#item = index === undefined ? undefined : items[index];
  }

  context(state: RunState, random: number): PipelineContext {
    const iteration = this.index === undefined ? {} : { iteration: { index: this.index, item: this.#item } };
    return { plan: this.#plan, state, stepId: this.stepId, attempt: this.attempt, random, ...iteration };
  }
}

/** The same unit, the same key, whoever lists it. */
export function unitKey(unit: WorkUnit): string {
  const index = unit.kind === 'iteration' ? unit.index : undefined;
  const end = unit.kind === 'loopEnd' ? '!' : '';
  return `${unitEntity(unit.stepId, index)}@${unit.attempt}${end}`;
}
