import type { PlanStep } from '../contracts/plan.ts';
import { at, type FormReader, shorten } from './form-reader.ts';
import { LIMITS } from './limits.ts';
import type { Located } from './located.ts';

/** Finds steps that never run, and writes into each step which joins it can reach. */
export function checkGraph(
  reader: FormReader,
  steps: PlanStep[],
  nodes: readonly Located[],
  entry: string,
  final: string | undefined,
): void {
  let arcs = 0;
  for (const step of steps) arcs += step.next?.arcs.length ?? 0;
  if (arcs > LIMITS.arcs) {
    reader.problem('TOO_LARGE', 0, 'workflow', `a playbook may have ${LIMITS.arcs} arcs; this one has ${arcs}`);
    return;
  }
  // Arcs that could not be read would make everything behind them look unreachable.
  const isCertain = !reader.problems.has('PRE_V10', 'ARC_TO_NOWHERE');
  const last = steps.find((step) => step.stepId === final);
  if (last?.next && last.next.arcs.length > 0) {
    const message = `'${shorten(last.stepId)}' is the final step; its arcs are not followed`;
    reader.problem('IGNORED_FIELD', nodes[last.index]!, at('workflow', last.index), message);
  }
  const reached = reachable(steps, entry, final);
  for (const step of steps) {
    if (!isCertain || reached.has(step.stepId)) continue;
    const message = `no arc leads from '${shorten(entry)}' to step '${shorten(step.stepId)}', so it never runs; add an arc or remove the step`;
    reader.problem('UNREACHABLE_STEP', nodes[step.index]!, at('workflow', step.index), message);
  }
  // A condition may be what could not be read.
  const isRead = isCertain && !reader.problems.has('INVALID_STEP_SCHEMA');
  const endless = isRead ? firstEndless(steps, reached, final) : undefined;
  if (endless !== undefined) {
    const message = `every way from step '${shorten(endless.stepId)}' leads back to it, and no arc has a condition: the run ends only when a step fails or the limit of steps is reached; give an arc a \`when\``;
    reader.problem('ENDLESS_CYCLE', nodes[endless.index]!, at('workflow', endless.index), message);
  }
  if (!fillReaches(steps)) {
    const message = `the steps can reach their joins in more than ${LIMITS.joinPairs} ways; split the playbook`;
    reader.problem('TOO_LARGE', 0, 'workflow', message);
  }
}

/** The names of the steps that can run: those that arcs lead to from the entry, and the final step. */
function reachable(steps: readonly PlanStep[], entry: string, final: string | undefined): Set<string> {
  const byName = new Map(steps.map((step) => [step.stepId, step]));
  const reached = new Set<string>(final === undefined ? [] : [final]);
  const open = [entry];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const step = byName.get(name);
    if (!step || reached.has(name)) continue;
    reached.add(name);
    for (const arc of step.next?.arcs ?? []) if (!reached.has(arc.step)) open.push(arc.step);
  }
  return reached;
}

/** The first step from which no arc, whatever its condition, leads to one where a token can stay. */
function firstEndless(
  steps: readonly PlanStep[],
  reached: ReadonlySet<string>,
  final: string | undefined,
): PlanStep | undefined {
  // A token stays where no arc has to match; the arcs of the final step are not followed.
  const open = steps.filter(
    ({ stepId, next }) =>
      stepId === final || (next?.arcs ?? []).every(({ when }) => when !== undefined && when !== true),
  );
  const ending = new Set(open.map(({ stepId }) => stepId));
  const sources = sourcesOf(steps);
  for (let step = open.pop(); step !== undefined; step = open.pop()) {
    for (const source of sources.get(step.stepId) ?? []) {
      if (ending.has(source.stepId)) continue;
      ending.add(source.stepId);
      open.push(source);
    }
  }
  return steps.find(({ stepId }) => reached.has(stepId) && !ending.has(stepId));
}

/** The steps that have an arc to each. */
function sourcesOf(steps: readonly PlanStep[]): Map<string, Set<PlanStep>> {
  const sources = new Map<string, Set<PlanStep>>();
  for (const step of steps) {
    for (const arc of step.next?.arcs ?? []) {
      const known = sources.get(arc.step);
      if (known) known.add(step);
      else sources.set(arc.step, new Set([step]));
    }
  }
  return sources;
}

/** Writes `reaches`, in plan order; false if there are too many pairs. */
function fillReaches(steps: readonly PlanStep[]): boolean {
  const sources = sourcesOf(steps);
  let pairs = 0;
  for (const join of steps) {
    if (join.join === undefined) continue;
    const seen = new Set<PlanStep>([join]);
    const open = [join];
    for (let step = open.pop(); step !== undefined; step = open.pop()) {
      for (const source of sources.get(step.stepId) ?? []) {
        if (seen.has(source)) continue;
        seen.add(source);
        open.push(source);
        source.reaches.push(join.stepId);
        if (++pairs > LIMITS.joinPairs) return false;
      }
    }
  }
  return true;
}
