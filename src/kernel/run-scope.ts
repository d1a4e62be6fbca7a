import type { Plan } from '../contracts/plan.ts';
import type { StoredValue } from '../contracts/values.ts';
import { type EvalOptions, NeedValues, type ScopeLookup } from './expressions/evaluation.ts';
import { isObject, type JsonObject } from './payload-reader.ts';
import type { Finished, Lineage, RunState } from './state.ts';
import { finishedValue } from './step-values.ts';

/** Stored values that the caller has fetched, by reference. */
export type Values = Readonly<Record<string, unknown>> | undefined;

export function evalOptions(values: Values): EvalOptions {
  return { resolve: (ref) => (values && Object.hasOwn(values, ref) ? values[ref] : undefined) };
}

/** From where a template looks at the run. */
export interface Viewpoint {
  readonly args?: JsonObject | undefined;
  readonly lineage?: Lineage | undefined;
  /** The instance itself, where it has ended. */
  readonly self?: { readonly name: string; readonly step: Finished } | undefined;
  /** Names that exist only here: `event`, `outcome`, `iter`, the tasks of a pipeline. They win over all others. */
  readonly own?: Readonly<Record<string, unknown>> | undefined;
  /** Names that may be assigned here; as long as nobody has, and nothing else has the name, they are undefined. */
  readonly declared?: ReadonlySet<string> | undefined;
}

/**
 * The names that a template sees: what is its own, then the fixed words, then finished steps, then the keys of the
 * workload, then inert root keys. Looked up on demand: building them all for each evaluation would cost as much as the
 * run is long.
 */
export class RunScope implements ScopeLookup {
  readonly #plan: Plan;
  readonly #state: RunState;
  readonly #values: Values;
  readonly #view: Viewpoint;

  constructor(plan: Plan, state: RunState, values: Values, view: Viewpoint) {
    this.#plan = plan;
    this.#state = state;
    this.#values = values;
    this.#view = view;
  }

  has(name: string): boolean {
    const { own } = this.#view;
    if (own && Object.hasOwn(own, name)) return true;
    switch (name) {
      case 'workload':
      case 'ctx':
      case 'args':
      case 'execution_id':
      case 'job':
        return true;
    }
    if (this.#step(name)) return true;
    if (Object.hasOwn(this.#workload(), name)) return true;
    if (this.#plan.inert !== undefined && Object.hasOwn(this.#plan.inert, name)) return true;
    return this.#view.declared?.has(name) ?? false;
  }

  get(name: string): unknown {
    const { own } = this.#view;
    if (own && Object.hasOwn(own, name)) return own[name];
    switch (name) {
      case 'workload':
        return this.#workload();
      case 'ctx':
        return this.#state.ctx;
      case 'args':
        return this.#view.args ?? {};
      case 'execution_id':
        return this.#state.runId;
      case 'job':
        return { uuid: this.#state.runId, execution_id: this.#state.runId };
    }
    const step = this.#step(name);
    if (step) return finishedValue(step);
    const workload = this.#workload();
    if (Object.hasOwn(workload, name)) return workload[name];
    const { inert } = this.#plan;
    return inert !== undefined && Object.hasOwn(inert, name) ? inert[name] : undefined;
  }

  /** A name means the instance itself, else its nearest ancestor by cause, else the highest number that has finished. */
  #step(name: string): Finished | undefined {
    const { self, lineage } = this.#view;
    if (self?.name === name) return self.step;
    if (lineage && Object.hasOwn(lineage.nearest, name)) return lineage.nearest[name]?.step;
    return this.#state.names.get(name)?.finished;
  }

  #workload(): JsonObject {
    return workloadOf(this.#plan, this.#state.run.workload, this.#values);
  }
}

const MERGED = new WeakMap<Plan, WeakMap<object, JsonObject>>();

/** The plan's defaults with the request's values merged in. Merged once per plan and request. */
function workloadOf(plan: Plan, given: StoredValue | undefined, values: Values): JsonObject {
  if (given === undefined) return plan.workload;
  const cache = MERGED.get(plan) ?? new WeakMap<object, JsonObject>();
  MERGED.set(plan, cache);
  const known = cache.get(given);
  if (known) return known;
  const merged = merge(plan.workload, fetched(given, values));
  cache.set(given, merged);
  return merged;
}

function fetched(stored: StoredValue, values: Values): unknown {
  if ('value' in stored) return stored.value;
  const { uri } = stored.ref;
  if (values && Object.hasOwn(values, uri)) return values[uri];
  throw new NeedValues([uri]);
}

/** Mappings are merged key by key, everything else is replaced. */
function merge(base: JsonObject, over: unknown): JsonObject {
  if (!isObject(over)) return base;
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = Object.hasOwn(base, key) ? base[key] : undefined;
    const next = isObject(below) && isObject(value) ? merge(below, value) : value;
    Object.defineProperty(merged, key, { value: next, enumerable: true, configurable: true, writable: true });
  }
  return merged;
}
