import { didYouMean } from '../../lib/closest-name.ts';
import type { Evaluation } from './evaluation.ts';
import { syntaxError, typeError } from './failure.ts';
import { toText } from './render-text.ts';
import { attribute, describe, item, type Mapping } from './values.ts';

/**
 * A filter, test, method or function. `apply` gets its arguments in the order of `params`, undefined where one was left out;
 * a variadic one gets all positional arguments as they came, and the keyword arguments apart.
 */
export interface Callable<Result = unknown> {
  /** Python's names of the arguments, in order. */
  readonly params: readonly string[];
  /** How many of `params` must be given. */
  readonly required?: number;
  readonly variadic?: boolean;
  /** One line for the documentation. */
  readonly summary: string;
  readonly apply: (ev: Evaluation, value: unknown, args: readonly unknown[], keywords: Mapping) => Result;
}

export type CallableTable<Result = unknown> = Readonly<Record<string, Callable<Result>>>;

export const NO_KEYWORDS: Mapping = Object.freeze({});

/** Puts positional and keyword arguments into the order of the parameters. */
export function bindArguments<T>(
  what: string,
  callable: Callable,
  positional: readonly T[],
  keywords: readonly (readonly [string, T])[],
): (T | undefined)[] {
  const { params, required = 0 } = callable;
  if (positional.length > params.length) {
    const most = params.length === 0 ? 'no arguments' : `at most ${params.length}: ${params.join(', ')}`;
    throw syntaxError(`${what} takes ${most}`);
  }
  const bound: (T | undefined)[] = [...positional];
  while (bound.length < params.length) bound.push(undefined);
  const given = new Set(positional.map((_, i) => i));
  for (const [name, value] of keywords) {
    const index = params.indexOf(name);
    if (index === -1) throw syntaxError(`${what} has no argument '${name}'${didYouMean(name, params)}`);
    if (given.has(index)) throw syntaxError(`${what} is given '${name}' twice`);
    given.add(index);
    bound[index] = value;
  }
  for (let i = 0; i < required; i++) {
    if (!given.has(i)) throw syntaxError(`${what} needs the argument '${params[i]}'`);
  }
  return bound;
}

/** Binds arguments known at run time once, to call with many values, as `map('upper')` does. */
export function bindValues<Result>(
  what: string,
  callable: Callable<Result>,
  args: readonly unknown[],
  keywords: Mapping,
): (ev: Evaluation, value: unknown) => Result {
  if (callable.variadic === true) return (ev, value) => callable.apply(ev, value, args, keywords);
  const bound = bindArguments(what, callable, args, Object.entries(keywords));
  return (ev, value) => callable.apply(ev, value, bound, NO_KEYWORDS);
}

export function textArgument(ev: Evaluation, value: unknown, fallback: string): string {
  return value === undefined ? fallback : toText(ev, value);
}

export function integerArgument(ev: Evaluation, value: unknown, name: string, fallback?: number): number {
  const number = ev.open(value);
  if ((number === undefined || number === null) && fallback !== undefined) return fallback;
  if (typeof number === 'boolean') return Number(number);
  if (typeof number !== 'number' || !Number.isInteger(number)) {
    const what = typeof number === 'number' ? 'a fraction' : describe(number);
    throw typeError(`'${name}' must be a whole number, not ${what}`);
  }
  return number;
}

export function booleanArgument(ev: Evaluation, value: unknown, fallback: boolean): boolean {
  return value === undefined ? fallback : ev.truthy(value);
}

/** A function that reads `a.b.0` from an item; digits are indexes. */
export function attributeReader(ev: Evaluation, path: unknown): (value: unknown) => unknown {
  const opened = ev.open(path);
  if (typeof opened === 'number') return (value) => item(ev, value, opened);
  if (typeof opened !== 'string') throw typeError(`an attribute is named by text, not by ${describe(opened)}`);
  if (!opened.includes('.') && !/^\d+$/.test(opened)) return (value) => attribute(ev, value, opened);
  const parts = opened.split('.').map((part) => (/^\d{1,9}$/.test(part) ? Number(part) : part));
  return (value) => parts.reduce<unknown>((inner, part) => item(ev, inner, part), value);
}
