import { PLAN_SCHEMA_VERSION, type Plan } from '../contracts/plan.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { sha256Hex } from '../lib/hash.ts';
import type { Loaded } from './compile.ts';
import { shorten } from './form-reader.ts';
import { LIMITS } from './limits.ts';
import { planProblems } from './plan-problems.ts';

/** A plan whose children are known, so that its bytes are. */
export interface Child {
  readonly plan: Plan;
  readonly json: string;
  readonly sha256: string;
}

/** Builds every loaded plan, children first, and reports those that are missing or lead back to themselves. */
export function linkChildren(
  main: string,
  loaded: ReadonlyMap<string, Loaded>,
  canResolve: boolean,
): Map<string, Child> {
  const built = new Map<string, Child>();
  const order = childrenFirst(main, loaded, canResolve);
  for (const file of order) {
    const entry = loaded.get(file)!;
    const plan = buildPlan(entry, built);
    if (plan) built.set(file, plan);
  }
  return built;
}

/** The files in an order in which each one comes after its children. */
function childrenFirst(main: string, loaded: ReadonlyMap<string, Loaded>, canResolve: boolean): string[] {
  const order: string[] = [];
  const state = new Map<string, 'open' | 'done'>();
  const visit = (file: string, chain: readonly string[]): void => {
    state.set(file, 'open');
    const entry = loaded.get(file)!;
    const trail = [...chain, file];
    for (const reference of entry.draft?.children ?? []) {
      const report = (code: 'CHILD_NOT_FOUND' | 'CHILD_CYCLE' | 'TOO_LARGE', message: string): void =>
        entry.problems.add(code, reference.where.offset, reference.playbookPath, message);
      const child = entry.children.get(reference.path);
      const name = shorten(reference.path);
      if (child === undefined || !loaded.has(child)) {
        if (!canResolve)
          report('CHILD_NOT_FOUND', `sub-playbooks cannot be looked up here; compile '${name}' together with this one`);
        else if (loaded.size >= LIMITS.children)
          report('TOO_LARGE', `a playbook may pull in ${LIMITS.children} others`);
        else
          report(
            'CHILD_NOT_FOUND',
            `there is no playbook '${name}'; correct the path, or use a template to find it when the step runs`,
          );
      } else if (state.get(child) === 'open') {
        const cycle = [...trail.slice(trail.indexOf(child)), child].map(shorten).join(' > ');
        report(
          'CHILD_CYCLE',
          `this playbook leads back to itself: ${cycle}; use a template for the path if it is meant to end`,
        );
      } else if (trail.length >= LIMITS.childDepth) {
        report('TOO_LARGE', `playbooks may stand ${LIMITS.childDepth} deep inside each other`);
      } else if (state.get(child) === undefined) visit(child, trail);
    }
    state.set(file, 'done');
    order.push(file);
  };
  visit(main, []);
  return order;
}

function buildPlan(entry: Loaded, built: ReadonlyMap<string, Child>): Child | undefined {
  const { draft, problems } = entry;
  if (!draft || problems.failed) return undefined;
  const children = new Map<string, Plan['children'][number]>();
  for (const reference of draft.children) {
    const file = entry.children.get(reference.path);
    const child = file === undefined ? undefined : built.get(file);
    // The child has problems of its own, which are reported with it.
    if (!child) return undefined;
    const { returnStep } = reference;
    if (returnStep && !child.plan.steps.some((step) => step.stepId === returnStep.name)) {
      const message = `'${shorten(reference.path)}' has no step '${shorten(returnStep.name)}' to return`;
      problems.add('CHILD_NOT_FOUND', returnStep.where.offset, reference.playbookPath, message);
      return undefined;
    }
    const { planId, planVersion } = child.plan.metadata;
    const exact = { path: reference.path, planId, planVersion, sha256: child.sha256 };
    children.set(reference.path, exact);
    reference.task.child = exact;
  }
  const listed = [...children.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  const unversioned = { ...draft.plan, schemaVersion: PLAN_SCHEMA_VERSION, children: listed };
  const planVersion = draft.version ?? sha256Hex(canonicalJson(unversioned)).slice(0, 12);
  const plan: Plan = { ...unversioned, metadata: { ...draft.plan.metadata, planVersion } };
  for (const { path, message } of planProblems(plan)) {
    problems.add('INVALID_STEP_SCHEMA', offsetOf(entry, path), path, `${path} ${message}`);
  }
  const json = canonicalJson(plan);
  const bytes = Buffer.byteLength(json);
  if (bytes > LIMITS.planBytes) {
    problems.add('TOO_LARGE', 0, '', `the plan has ${bytes} bytes; at most ${LIMITS.planBytes} are taken`);
  }
  return problems.failed ? undefined : { plan, json, sha256: sha256Hex(json) };
}

/** The place of the nearest part of the plan that was marked. */
function offsetOf(entry: Loaded, pointer: string): number {
  for (let at = pointer; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    const position = entry.draft?.positions.get(at);
    if (position) return entry.source.lineStart(position.line) + position.column - 1;
  }
  return 0;
}
