import { limitError, typeError } from './failure.ts';
import { Special } from './special.ts';
import { describe, isMapping, isTruthy } from './values.ts';

/** Bounds of one evaluation. Exceeding one is TEMPLATE_LIMIT. */
export interface Limits {
  /** Work: loop passes weighted by their body, items touched, and one per 16 characters of text. */
  readonly maxSteps: number;
  /** Characters of any text that is built, the output included. */
  readonly maxLength: number;
  /** Items of any list that is built. */
  readonly maxItems: number;
  /** Macro calls inside each other. */
  readonly maxDepth: number;
}

const DEFAULT_LIMITS: Limits = { maxSteps: 5_000_000, maxLength: 4_194_304, maxItems: 1_000_000, maxDepth: 50 };

/**
 * Where root names are found: a function pair (a `Map` is one), or the own properties of an object. Values are JSON,
 * `undefined`, `ExternalValue` or `ResultValue` (the latter two as roots, or in mappings at most two levels below one);
 * results may share structure with them, so neither may be changed.
 */
export type Scope = ScopeLookup | Readonly<Record<string, unknown>>;

export interface ScopeLookup {
  has(name: string): boolean;
  get(name: string): unknown;
}

export interface EvalOptions {
  readonly limits?: Partial<Limits>;
  /** The value behind a reference, or undefined if it is not at hand, which ends the evaluation with `NeedValues`. */
  readonly resolve?: (ref: string) => unknown;
}

/** Stands for "there is no such name", which differs from a name whose value is undefined. */
export const MISSING: unique symbol = Symbol('missing');

/** The state of one evaluation: names, budget, and the place to blame if something fails. */
export class Evaluation {
  /** Offset of what is being evaluated. Set before every operation that can fail. */
  at = 0;
  /** Work done so far. Zero means that nothing was built: the result is a literal or a part of the scope. */
  spent = 0;
  depth = 0;
  readonly limits: Limits;
  /** Loop variables, `set` names and macro parameters, by slot. */
  readonly locals: unknown[];
  readonly #scope: Scope;
  readonly #isLookup: boolean;
  readonly #resolve: ((ref: string) => unknown) | undefined;
  #pairs: WeakMap<object, readonly [unknown, unknown]> | undefined;

  constructor(scope: Scope, options: EvalOptions | undefined, slots: number) {
    this.#scope = scope;
    this.#isLookup = typeof scope.has === 'function' && typeof scope.get === 'function';
    this.#resolve = options?.resolve;
    this.limits = options?.limits === undefined ? DEFAULT_LIMITS : { ...DEFAULT_LIMITS, ...options.limits };
    this.locals = slots === 0 ? NO_SLOTS : new Array<unknown>(slots).fill(MISSING);
  }

  /** A root name's value, or MISSING. */
  root(name: string): unknown {
    if (this.#isLookup) {
      const scope = this.#scope as ScopeLookup;
      return scope.has(name) ? scope.get(name) : MISSING;
    }
    return Object.hasOwn(this.#scope, name) ? (this.#scope as Record<string, unknown>)[name] : MISSING;
  }

  /** The value that a reference to a stored result stands for; other values are themselves. */
  open(value: unknown): unknown {
    return value instanceof Special ? value.open(this) : value;
  }

  resolve(ref: string): unknown {
    const value = this.#resolve?.(ref);
    if (value === undefined) throw new NeedValues([ref]);
    return value;
  }

  truthy(value: unknown): boolean {
    if (typeof value !== 'object' || value === null) return isTruthy(value);
    const opened = value instanceof Special ? value.open(this) : value;
    // Whether a mapping is empty takes as long as it has keys.
    if (isMapping(opened)) this.charge(Object.keys(opened).length);
    return isTruthy(opened);
  }

  charge(steps: number): void {
    this.spent += steps;
    if (this.spent > this.limits.maxSteps) {
      throw limitError(`this evaluation takes more than ${this.limits.maxSteps} steps`);
    }
  }

  chargeText(length: number): void {
    this.charge(1 + (length >> 4));
  }

  checkLength(length: number): void {
    if (length > this.limits.maxLength) throw limitError(`a text may have ${this.limits.maxLength} characters`);
  }

  checkItems(count: number): void {
    if (count > this.limits.maxItems) throw limitError(`a list may have ${this.limits.maxItems} items`);
  }

  /** Text that was just built: bounded and paid for. */
  text(value: string): string {
    this.checkLength(value.length);
    this.charge(1 + (value.length >> 4));
    return value;
  }

  /** A list that was just built: bounded and paid for. */
  list(value: unknown[]): unknown[] {
    this.checkItems(value.length);
    this.charge(1 + value.length);
    return value;
  }

  number(value: number): number {
    // Adding zero turns -0, which Python's integers do not have, into 0.
    if (Number.isFinite(value)) return value + 0;
    throw Number.isNaN(value) ? typeError('the result is not a number') : limitError('the number is too large');
  }

  /** Marks a mapping that also unpacks as a pair, as the groups of `groupby` do. */
  markPair(mapping: object, pair: readonly [unknown, unknown]): void {
    this.#pairs ??= new WeakMap();
    this.#pairs.set(mapping, pair);
  }

  pairOf(value: unknown): readonly [unknown, unknown] | undefined {
    return this.#pairs === undefined || typeof value !== 'object' || value === null
      ? undefined
      : this.#pairs.get(value);
  }

  /** Refuses what is not JSON: a host object that got into the scope must not leave it. */
  refuse(value: unknown, use: string): never {
    throw typeError(`${describe(value)} cannot be ${use}`);
  }
}

const NO_SLOTS: unknown[] = [];

/**
 * Thrown when a template uses the whole of a value that is stored outside the log and `resolve` does not have it. Fetch
 * `refs` and evaluate again.
 */
export class NeedValues extends Error {
  override readonly name = 'NeedValues';
  readonly refs: readonly string[];

  constructor(refs: readonly string[]) {
    super(`these stored values are needed: ${refs.join(', ')}`);
    this.refs = refs;
  }
}
