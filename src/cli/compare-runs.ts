import { canonicalJson } from '../lib/canonical-json.ts';
import { comparable, type RunFacts, type StepFacts } from './run-facts.ts';

/** One thing that differs. `stepId` is absent where it is about the run; a side is absent where only the other has it. */
export interface Difference {
  readonly what: 'plan' | 'input' | 'status' | 'result' | 'error' | 'step' | 'route' | 'attempts' | 'calls' | 'loop';
  readonly stepId?: string;
  readonly a?: unknown;
  readonly b?: unknown;
}

export interface StepPair {
  readonly a: StepFacts | undefined;
  readonly b: StepFacts | undefined;
}

/** Compares what two runs did. Durations always differ and are no difference here. */
export function compareRuns(a: RunFacts, b: RunFacts): { differences: Difference[]; pairs: StepPair[] } {
  const differences: Difference[] = [];
  const note = (what: Difference['what'], left: unknown, right: unknown, stepId?: string): void => {
    if (canonicalJson(left ?? null) === canonicalJson(right ?? null)) return;
    differences.push({
      what,
      ...(stepId === undefined ? {} : { stepId }),
      ...(left === undefined ? {} : { a: left }),
      ...(right === undefined ? {} : { b: right }),
    });
  };
  note('plan', planName(a), planName(b));
  note('input', comparable(a, a.workload), comparable(b, b.workload));
  note('status', a.status, b.status);
  note('result', comparable(a, a.result), comparable(b, b.result));
  note('error', a.error && `${a.error.code}: ${a.error.message}`, b.error && `${b.error.code}: ${b.error.message}`);
  const pairs = pairSteps(a, b);
  for (const { a: left, b: right } of pairs) {
    const stepId = (left ?? right)!.stepId;
    if (!left || !right) {
      note('step', left?.status, right?.status, stepId);
      continue;
    }
    note('status', left.status, right.status, stepId);
    note('route', left.next, right.next, stepId);
    note('error', left.error?.code, right.error?.code, stepId);
    note('attempts', left.attempts, right.attempts, stepId);
    note('calls', left.calls, right.calls, stepId);
    note('loop', left.loop, right.loop, stepId);
    // The result of a loop is the list of what its iterations gave.
    if (left.iterations.size + right.iterations.size === 0)
      note('result', comparable(a, left.result), comparable(b, right.result), stepId);
    const indexes = [...new Set([...left.iterations.keys(), ...right.iterations.keys()])].sort((x, y) => x - y);
    for (const i of indexes) note('result', left.iterations.get(i), right.iterations.get(i), `${stepId}/${i}`);
  }
  return { differences, pairs };
}

/** By how they were reached; what is left by its name, since it was then reached in another way; the rest stands alone. */
function pairSteps(a: RunFacts, b: RunFacts): StepPair[] {
  const byKey = new Map([...b.steps.values()].map((step) => [step.key, step]));
  const partner = new Map<StepFacts, StepFacts>();
  const taken = new Set<StepFacts>();
  const join = (left: StepFacts, right: StepFacts | undefined): void => {
    if (!right || taken.has(right) || partner.has(left)) return;
    partner.set(left, right);
    taken.add(right);
  };
  for (const step of a.steps.values()) join(step, byKey.get(step.key));
  for (const step of a.steps.values()) join(step, b.steps.get(step.stepId));
  return [
    ...[...a.steps.values()].map((step) => ({ a: step, b: partner.get(step) })),
    ...[...b.steps.values()].filter((step) => !taken.has(step)).map((step) => ({ a: undefined, b: step })),
  ];
}

function planName({ planRef }: RunFacts): string | undefined {
  return planRef && `${planRef.planId} ${planRef.planVersion} ${planRef.sha256.slice(0, 12)}`;
}
