import type { Evaluation } from './evaluation.ts';
import { typeError } from './failure.ts';
import { Special } from './special.ts';
import { describe, guardDepth, isMapping, type Mapping, ownValue, setOwn } from './values.ts';

/**
 * Turns what an expression gave into what leaves the template: JSON, or undefined. A value that is a part of the scope goes
 * out as it is, in constant time. One that was built here is walked once: times become text, an undefined item becomes
 * null, an undefined key is left out, and the walk is paid for, because `[[[1] * 1000] * 1000] * 1000` costs little to
 * build and would cost a thousand million items to store.
 */
export function finishResult(ev: Evaluation, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return finishScalar(value);
  if (ev.spent === 0 && !(value instanceof Special)) {
    if (Array.isArray(value)) return value;
    if (!isMapping(value)) throw refusal(value);
    return holdsSpecial(value, 2) ? walk(ev, value, 0) : value;
  }
  if (value instanceof Special && ev.spent === 0) return finishResult(ev, openFully(ev, value));
  return walk(ev, value, 0);
}

/** The host's own mappings, such as an outcome with its result, hold stored values near the top or not at all. */
function holdsSpecial(mapping: Mapping, levels: number): boolean {
  const keys = Object.keys(mapping);
  if (keys.length > 64) return false;
  return keys.some((key) => {
    const value = ownValue(mapping, key);
    return value instanceof Special || (levels > 1 && isMapping(value) && holdsSpecial(value, levels - 1));
  });
}

function finishScalar(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
    case 'boolean':
    case 'undefined':
      return value;
    case 'number':
      if (Number.isFinite(value)) return value;
      throw typeError('the result is not a finite number');
    default:
      if (value === null) return value;
      throw refusal(value);
  }
}

function refusal(value: unknown): Error {
  return typeError(`the result is ${describe(value)}; a template gives text, numbers, booleans, lists and mappings`);
}

function openFully(ev: Evaluation, value: Special): unknown {
  const opened = value.open(ev);
  if (!(opened instanceof Special)) return opened;
  const result = opened.toResult(ev);
  if (result === undefined) throw refusal(opened);
  return result;
}

function walk(ev: Evaluation, value: unknown, depth: number): unknown {
  ev.charge(1);
  if (typeof value !== 'object' || value === null) return finishScalar(value);
  guardDepth(depth);
  if (value instanceof Special) return walk(ev, openFully(ev, value), depth + 1);
  if (Array.isArray(value)) return walkList(ev, value, depth);
  if (isMapping(value)) return walkMapping(ev, value, depth);
  throw refusal(value);
}

/** Copies only if an item changes. */
function walkList(ev: Evaluation, list: readonly unknown[], depth: number): readonly unknown[] {
  let copy: unknown[] | undefined;
  for (let i = 0; i < list.length; i++) {
    const old = list[i];
    const fresh = walk(ev, old, depth + 1) ?? null;
    if (copy === undefined && fresh !== old) copy = list.slice(0, i);
    copy?.push(fresh);
  }
  return copy ?? list;
}

function walkMapping(ev: Evaluation, mapping: Mapping, depth: number): Mapping {
  let changed = false;
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(mapping)) {
    const old = ownValue(mapping, key);
    const fresh = walk(ev, old, depth + 1);
    if (fresh !== old || fresh === undefined) changed = true;
    if (fresh !== undefined) setOwn(copy, key, fresh);
  }
  return changed ? copy : mapping;
}
