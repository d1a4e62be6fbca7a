import { DateTimeValue } from './datetime-value.ts';
import type { Evaluation } from './evaluation.ts';
import { limitError, typeError, undefinedError } from './failure.ts';
import { printf } from './format-text.ts';
import { toText } from './render-text.ts';
import { Special } from './special.ts';
import { placeOf } from './text-search.ts';
import { characters, describe, guardDepth, hasOwnValue, isMapping, keyText, ownValue } from './values.ts';

/** A number as Python's arithmetic takes it: booleans count as 0 and 1. */
function numeric(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return typeof value === 'boolean' ? Number(value) : undefined;
}

function mismatch(operator: string, left: unknown, right: unknown, hint = ''): Error {
  if (left === undefined || right === undefined) {
    const side = left === undefined ? 'left' : 'right';
    return undefinedError(`the value on the ${side} of \`${operator}\` is undefined; give it one with default()`);
  }
  return typeError(`\`${operator}\` cannot take ${describe(left)} and ${describe(right)}${hint}`);
}

export function add(ev: Evaluation, leftValue: unknown, rightValue: unknown): unknown {
  if (typeof leftValue === 'number' && typeof rightValue === 'number') return ev.number(leftValue + rightValue);
  const left = ev.open(leftValue);
  const right = ev.open(rightValue);
  if (typeof left === 'string' && typeof right === 'string') {
    ev.checkLength(left.length + right.length);
    ev.chargeText(left.length + right.length);
    return left + right;
  }
  const a = numeric(left);
  const b = numeric(right);
  if (a !== undefined && b !== undefined) return ev.number(a + b);
  if (Array.isArray(left) && Array.isArray(right)) {
    ev.checkItems(left.length + right.length);
    return ev.list([...left, ...right]);
  }
  const texts = typeof left === 'string' || typeof right === 'string';
  const hint = texts
    ? '; join texts with `~`'
    : isMapping(left) && isMapping(right)
      ? '; merge mappings with combine()'
      : '';
  throw mismatch('+', left, right, hint);
}

export function subtract(ev: Evaluation, left: unknown, right: unknown): unknown {
  return arithmetic(ev, '-', left, right, (a, b) => a - b);
}

export function divide(ev: Evaluation, left: unknown, right: unknown): unknown {
  return arithmetic(ev, '/', left, right, (a, b) => a / nonZero(b));
}

export function floorDivide(ev: Evaluation, left: unknown, right: unknown): unknown {
  return arithmetic(ev, '//', left, right, (a, b) => Math.round((a - remainder(a, b)) / b));
}

export function power(ev: Evaluation, left: unknown, right: unknown): unknown {
  return arithmetic(ev, '**', left, right, (a, b) => (b < 0 ? nonZero(a) : a) ** b);
}

export function modulo(ev: Evaluation, left: unknown, right: unknown): unknown {
  const format = ev.open(left);
  if (typeof format === 'string') {
    const values = ev.open(right);
    return printf(ev, format, Array.isArray(values) ? values : [values]);
  }
  return arithmetic(ev, '%', format, right, remainder);
}

/** Python's remainder has the sign of the divisor. */
function remainder(a: number, b: number): number {
  const rest = a % nonZero(b);
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

export function multiply(ev: Evaluation, leftValue: unknown, rightValue: unknown): unknown {
  if (typeof leftValue === 'number' && typeof rightValue === 'number') return ev.number(leftValue * rightValue);
  const left = ev.open(leftValue);
  const right = ev.open(rightValue);
  const a = numeric(left);
  const b = numeric(right);
  if (a !== undefined && b !== undefined) return ev.number(a * b);
  if (b !== undefined && (typeof left === 'string' || Array.isArray(left))) return repeat(ev, left, b);
  if (a !== undefined && (typeof right === 'string' || Array.isArray(right))) return repeat(ev, right, a);
  throw mismatch('*', left, right);
}

function repeat(ev: Evaluation, value: string | readonly unknown[], times: number): unknown {
  if (!Number.isInteger(times)) throw typeError('`*` repeats a text or a list by whole numbers only');
  const count = Math.max(0, times);
  if (typeof value === 'string') {
    ev.checkLength(value.length * count);
    return ev.text(value.repeat(count));
  }
  ev.checkItems(value.length * count);
  const out: unknown[] = [];
  if (value.length > 0) for (let i = 0; i < count; i++) for (const element of value) out.push(element);
  return ev.list(out);
}

function arithmetic(
  ev: Evaluation,
  operator: string,
  leftValue: unknown,
  rightValue: unknown,
  compute: (a: number, b: number) => number,
): number {
  const left = ev.open(leftValue);
  const right = ev.open(rightValue);
  const a = numeric(left);
  const b = numeric(right);
  if (a === undefined || b === undefined) throw mismatch(operator, left, right);
  return ev.number(compute(a, b));
}

function nonZero(divisor: number): number {
  if (divisor === 0) throw typeError('division by zero');
  return divisor;
}

export function negate(ev: Evaluation, value: unknown, sign: 1 | -1): number {
  const opened = ev.open(value);
  const number = numeric(opened);
  if (number === undefined) {
    const message = `\`${sign < 0 ? '-' : '+'}\` needs a number, not ${describe(opened)}`;
    throw opened === undefined ? undefinedError(message) : typeError(message);
  }
  return sign < 0 ? 0 - number : number;
}

/** `~`: both sides as text. */
export function concatenate(ev: Evaluation, left: unknown, right: unknown): string {
  const a = toText(ev, left);
  const b = toText(ev, right);
  ev.checkLength(a.length + b.length);
  ev.chargeText(a.length + b.length);
  return a + b;
}

/** Deep equality. As in Python `1 == true`, and undefined equals undefined only. */
export function equals(ev: Evaluation, left: unknown, right: unknown, depth = 0): boolean {
  if (typeof left === 'string' && typeof right === 'string') {
    if (left.length > 64 && left.length === right.length) ev.chargeText(left.length);
    return left === right;
  }
  if (left === right) return true;
  const a = ev.open(left);
  const b = ev.open(right);
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) {
    const x = numeric(a);
    return x !== undefined && x === numeric(b);
  }
  guardDepth(depth);
  ev.charge(1);
  if (a instanceof DateTimeValue && b instanceof DateTimeValue) return a.compareTo(b) === 0;
  if (a instanceof Special || b instanceof Special) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((element, i) => equals(ev, element, b[i], depth + 1));
  }
  if (!isMapping(a) || !isMapping(b)) return false;
  const keys = Object.keys(a);
  const others = Object.keys(b);
  ev.charge(keys.length + others.length);
  if (keys.length !== others.length) return false;
  return keys.every((key) => hasOwnValue(b, key) && equals(ev, ownValue(a, key), ownValue(b, key), depth + 1));
}

/** Negative, zero or positive, like a sort function. Only values of one kind have an order. */
export function compare(ev: Evaluation, leftValue: unknown, rightValue: unknown, operator: string, depth = 0): number {
  const left = ev.open(leftValue);
  const right = ev.open(rightValue);
  const a = numeric(left);
  const b = numeric(right);
  if (a !== undefined && b !== undefined) return a - b;
  if (typeof left === 'string' && typeof right === 'string') {
    ev.chargeText(Math.min(left.length, right.length));
    return left < right ? -1 : left > right ? 1 : 0;
  }
  if (left instanceof DateTimeValue && right instanceof DateTimeValue) return left.compareTo(right);
  if (Array.isArray(left) && Array.isArray(right)) {
    guardDepth(depth);
    for (let i = 0; i < left.length && i < right.length; i++) {
      ev.charge(1);
      if (equals(ev, left[i], right[i])) continue;
      return compare(ev, left[i], right[i], operator, depth + 1);
    }
    return left.length - right.length;
  }
  throw mismatch(operator, left, right, '; convert one of them');
}

/** `needle in container`. */
export function contains(ev: Evaluation, containerValue: unknown, needleValue: unknown): boolean {
  const container = ev.open(containerValue);
  const needle = ev.open(needleValue);
  if (container === undefined) return false;
  if (typeof container === 'string') {
    if (needle === undefined) return false;
    if (typeof needle !== 'string') throw mismatch('in', needle, container);
    ev.chargeText(container.length * 4);
    return placeOf(container, needle) !== -1;
  }
  if (Array.isArray(container)) {
    ev.charge(container.length);
    return container.some((element) => equals(ev, element, needle));
  }
  if (isMapping(container)) {
    if (needle === undefined || needle === null) return false;
    return hasOwnValue(container, keyText(needle));
  }
  throw mismatch('in', needle, container, '; the right side must be a list, a text or a mapping');
}

/** `value[start:stop:step]` for lists and texts. */
export function slice(ev: Evaluation, value: unknown, bounds: readonly [unknown, unknown, unknown]): unknown {
  const target = ev.open(value);
  if (target === undefined) return undefined;
  if (typeof target !== 'string' && !Array.isArray(target)) throw typeError(`${describe(target)} cannot be sliced`);
  const [start, stop, step] = bounds.map((bound) => sliceBound(ev, bound));
  const items: readonly unknown[] = typeof target === 'string' ? characters(ev, target) : target;
  const picked = pick(items, start, stop, step ?? 1);
  return typeof target === 'string' ? ev.text(picked.join('')) : ev.list(picked);
}

function sliceBound(ev: Evaluation, value: unknown): number | undefined {
  const bound = ev.open(value);
  if (bound === undefined || bound === null) return undefined;
  const number = numeric(bound);
  if (number === undefined || !Number.isInteger(number)) throw typeError('the bounds of a slice must be whole numbers');
  return number;
}

function pick(items: readonly unknown[], start: number | undefined, stop: number | undefined, step: number): unknown[] {
  if (step === 0) throw typeError('the step of a slice cannot be zero');
  const length = items.length;
  const clamp = (bound: number | undefined, fallback: number) => {
    if (bound === undefined) return fallback;
    const wrapped = bound < 0 ? bound + length : bound;
    return step > 0 ? Math.min(Math.max(wrapped, 0), length) : Math.min(Math.max(wrapped, -1), length - 1);
  };
  const from = clamp(start, step > 0 ? 0 : length - 1);
  const to = clamp(stop, step > 0 ? length : -1);
  if (step === 1) return items.slice(from, Math.max(from, to));
  const out: unknown[] = [];
  for (let i = from; step > 0 ? i < to : i > to; i += step) out.push(items[i]);
  return out;
}

/** Numbers `range(start, stop, step)` visits. */
export function range(ev: Evaluation, start: number, stop: number, step: number): unknown[] {
  if (step === 0) throw typeError('the step of range() cannot be zero');
  const count = Math.max(0, Math.ceil((stop - start) / step));
  if (!Number.isSafeInteger(count)) throw limitError('this range is too long');
  ev.checkItems(count);
  const out: unknown[] = [];
  for (let i = 0; i < count; i++) out.push(start + i * step);
  return ev.list(out);
}
