import type { Evaluation } from './evaluation.ts';
import { limitError, typeError } from './failure.ts';
import { Special } from './special.ts';

export type Mapping = Readonly<Record<string, unknown>>;

/** Values nested deeper than this are hostile or a mistake; recursion over them would exhaust the stack. */
export const MAX_VALUE_DEPTH = 200;

/** A plain object: data, not an instance of something. The check also holds for objects of another realm. */
export function isMapping(value: unknown): value is Mapping {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * Reads an own, enumerable data property. Inherited names, accessors and hidden properties do not exist for templates, so
 * neither `constructor` nor a getter of the host can be reached.
 */
export function ownValue(object: object, key: string): unknown {
  const property = Object.getOwnPropertyDescriptor(object, key);
  return property?.enumerable === true ? property.value : undefined;
}

export function hasOwnValue(object: object, key: string): boolean {
  return Object.prototype.propertyIsEnumerable.call(object, key);
}

/** Writes a key as data even if it is `__proto__`, which an assignment would take for the prototype. */
export function setOwn(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

/**
 * Keys in code-unit order. Plans and events are stored as canonical JSON, which sorts keys; visiting them in the order
 * they happen to have in memory would make a live decision differ from its replay.
 */
export function sortedKeys(mapping: Mapping): string[] {
  const keys = Object.keys(mapping);
  return keys.length > 1 ? keys.sort() : keys;
}

/** `object.name`, and `object['name']` where the key is known. */
export function attribute(evaluation: Evaluation, object: unknown, name: string): unknown {
  if (typeof object !== 'object' || object === null) return undefined;
  if (object instanceof Special) return object.attribute(evaluation, name);
  return isMapping(object) ? ownValue(object, name) : undefined;
}

/** `object[key]`. */
export function item(evaluation: Evaluation, object: unknown, key: unknown): unknown {
  if (typeof key === 'string') return attribute(evaluation, object, key);
  const target = evaluation.open(object);
  if (Array.isArray(target)) return Number.isInteger(key) ? target[wrapIndex(key as number, target.length)] : undefined;
  if (typeof target === 'string') {
    if (!Number.isInteger(key)) return undefined;
    evaluation.chargeText(target.length);
    if (!SURROGATE.test(target)) return target[wrapIndex(key as number, target.length)];
    const all = characters(evaluation, target);
    return all[wrapIndex(key as number, all.length)];
  }
  const pair = evaluation.pairOf(target);
  if (pair !== undefined) return pair[wrapIndex(key as number, 2)];
  if (isMapping(target) && (typeof key === 'number' || typeof key === 'boolean' || key === null)) {
    return ownValue(target, keyText(key));
  }
  return undefined;
}

function wrapIndex(index: number, length: number): number {
  return index < 0 ? index + length : index;
}

/** JSON knows only text as keys. */
export function keyText(key: unknown): string {
  if (typeof key === 'string') return key;
  if (typeof key === 'number' || typeof key === 'boolean' || key === null) return String(key);
  throw typeError(`${describe(key)} cannot be a key; use text`);
}

const SURROGATE = /[\ud800-\udfff]/;

/** A string's characters as Python counts them: code points, so that no emoji is cut in two. */
export function characters(evaluation: Evaluation, value: string): readonly string[] {
  evaluation.charge(1 + (value.length >> 2));
  return SURROGATE.test(value) ? Array.from(value) : value.split('');
}

export function lengthOfText(value: string): number {
  if (!SURROGATE.test(value)) return value.length;
  let count = 0;
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    const next = value.charCodeAt(i + 1);
    if (code >= 0xd800 && code < 0xdc00 && next >= 0xdc00 && next < 0xe000) i++;
    count++;
  }
  return count;
}

/** What a `for` visits: items of a list, characters, keys in order, and nothing if undefined. */
export function iterate(evaluation: Evaluation, value: unknown): readonly unknown[] {
  const opened = evaluation.open(value);
  if (Array.isArray(opened)) return opened;
  if (opened === undefined) return [];
  if (typeof opened === 'string') return characters(evaluation, opened);
  const pair = evaluation.pairOf(opened);
  if (pair !== undefined) return pair;
  if (isMapping(opened)) {
    const keys = sortedKeys(opened);
    evaluation.charge(keys.length * 4);
    return keys;
  }
  throw typeError(`${describe(opened)} cannot be iterated; a list is needed`);
}

/** Python's truth, for values that left a template. */
export function isTruthy(value: unknown): boolean {
  switch (typeof value) {
    case 'boolean':
      return value;
    case 'undefined':
      return false;
    case 'string':
      return value.length > 0;
    case 'number':
      return value !== 0 && !Number.isNaN(value);
    case 'object':
      if (value === null) return false;
      if (Array.isArray(value)) return value.length > 0;
      return value instanceof Special || !isMapping(value) || Object.keys(value).length > 0;
    default:
      return true;
  }
}

/** A value's type for messages. Values themselves never appear in messages: they may be secret. */
export function describe(value: unknown): string {
  if (value === undefined) return 'an undefined value';
  if (value === null) return 'none';
  if (value instanceof Special) return value.description;
  if (Array.isArray(value)) return 'a list';
  switch (typeof value) {
    case 'boolean':
      return 'a boolean';
    case 'number':
      return 'a number';
    case 'string':
      return 'text';
    default:
      return isMapping(value) ? 'a mapping' : 'a value that is not JSON';
  }
}

export function guardDepth(depth: number): void {
  if (depth > MAX_VALUE_DEPTH) throw limitError(`a value is nested deeper than ${MAX_VALUE_DEPTH} levels`);
}
