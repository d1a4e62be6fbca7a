import { booleanArgument, type CallableTable, integerArgument, textArgument } from '../callable.ts';
import type { Evaluation } from '../evaluation.ts';
import { typeError } from '../failure.ts';
import { compare } from '../operators.ts';
import { toJson, toText } from '../render-text.ts';
import {
  attribute,
  describe,
  guardDepth,
  isMapping,
  iterate,
  keyText,
  type Mapping,
  ownValue,
  setOwn,
  sortedKeys,
} from '../values.ts';

const DEFAULT = {
  params: ['default_value', 'boolean'],
  summary: 'The value, or `default_value` if it is undefined (or false, with `boolean=true`).',
  apply: (ev: Evaluation, value: unknown, [fallback, boolean]: readonly unknown[]) => {
    const isMissing = booleanArgument(ev, boolean, false) ? !ev.truthy(value) : value === undefined;
    return isMissing ? (fallback === undefined ? '' : fallback) : value;
  },
};

const TO_JSON = {
  params: ['indent'],
  summary: 'The value as JSON text, keys sorted.',
  apply: (ev: Evaluation, value: unknown, [indent]: readonly unknown[]) => {
    if (indent === undefined || indent === null) return toJson(ev, value);
    const width = integerArgument(ev, indent, 'indent');
    if (width < 0 || width > 16) throw typeError('the indent of tojson is a number from 0 to 16');
    return toJson(ev, value, ' '.repeat(width));
  },
};

const FROM_JSON = {
  params: [],
  summary: 'The value that a JSON text stands for.',
  apply: (ev: Evaluation, value: unknown) => {
    if (typeof value !== 'string') throw typeError(`fromjson reads text, not ${describe(value)}`);
    // A value in JSON takes one character at least, so its size is bounded before it is read.
    ev.charge(1 + (value.length >> 2));
    let parsed: unknown;
    try {
      parsed = JSON.parse(value);
    } catch {
      throw typeError('this text is not JSON');
    }
    checkDepth(parsed, 0);
    return parsed;
  },
};

export const MAPPING_FILTERS: CallableTable = {
  default: DEFAULT,
  d: { ...DEFAULT, summary: 'The same as default.' },
  tojson: TO_JSON,
  to_json: { ...TO_JSON, summary: 'The same as tojson.' },
  fromjson: FROM_JSON,
  from_json: { ...FROM_JSON, summary: 'The same as fromjson.' },
  items: {
    params: [],
    summary: 'List of [key, value] of a mapping, in the order of the keys.',
    apply: (ev, value) => itemsOf(ev, value, 'items'),
  },
  keys: {
    params: [],
    summary: 'List of the keys of a mapping, in order.',
    apply: (ev, value) => keysOf(ev, value, 'keys'),
  },
  values: {
    params: [],
    summary: 'List of the values of a mapping, in the order of the keys.',
    apply: (ev, value) => valuesOf(ev, value, 'values'),
  },
  dictsort: {
    params: ['case_sensitive', 'by', 'reverse'],
    summary: "List of [key, value], sorted by 'key' or by 'value'.",
    apply: (ev, value, [caseSensitive, by, reverse]) => {
      const side = textArgument(ev, by, 'key');
      if (side !== 'key' && side !== 'value') throw typeError("dictsort sorts by 'key' or by 'value'");
      const isCaseSensitive = booleanArgument(ev, caseSensitive, false);
      const sign = booleanArgument(ev, reverse, false) ? -1 : 1;
      const keyOf = (pair: unknown) => {
        const key: unknown = (pair as readonly unknown[])[side === 'key' ? 0 : 1];
        if (typeof key !== 'string' || isCaseSensitive) return key;
        ev.chargeText(key.length);
        return key.toLowerCase();
      };
      const pairs = itemsOf(ev, value, 'dictsort');
      ev.charge(pairs.length * 20);
      return pairs.sort((a, b) => sign * compare(ev, keyOf(a), keyOf(b), 'dictsort'));
    },
  },
  dict: {
    params: [],
    summary: 'A mapping from a list of [key, value].',
    apply: (ev, value) => mappingFrom(ev, value),
  },
  combine: {
    params: ['recursive'],
    variadic: true,
    summary: 'A mapping with the keys of others added; `recursive=true` merges mappings inside them.',
    apply: (ev, value, args, keywords) => {
      const recursive = booleanArgument(ev, ownValue(keywords, 'recursive'), false);
      let result: Mapping = requireMapping(ev, value, 'combine');
      for (const other of args) result = merge(ev, result, requireMapping(ev, other, 'combine'), recursive, 0);
      return result;
    },
  },
  attr: {
    params: ['name'],
    required: 1,
    summary: 'The attribute with that name.',
    apply: (ev, value, [name]) => attribute(ev, value, toText(ev, name)),
  },
};

function requireMapping(ev: Evaluation, value: unknown, filter: string): Mapping {
  const opened = ev.open(value);
  if (opened === undefined) return {};
  if (!isMapping(opened)) throw typeError(`'${filter}' needs a mapping, not ${describe(opened)}`);
  return opened;
}

export function keysOf(ev: Evaluation, value: unknown, what: string): unknown[] {
  return ev.list(sortedKeys(requireMapping(ev, value, what)));
}

export function valuesOf(ev: Evaluation, value: unknown, what: string): unknown[] {
  const mapping = requireMapping(ev, value, what);
  return ev.list(sortedKeys(mapping).map((key) => ownValue(mapping, key)));
}

export function itemsOf(ev: Evaluation, value: unknown, what: string): unknown[] {
  const mapping = requireMapping(ev, value, what);
  const pairs = sortedKeys(mapping).map((key) => [key, ownValue(mapping, key)]);
  ev.charge(pairs.length * 2);
  return ev.list(pairs);
}

/** A new mapping from another one or from pairs, as Python's `dict` takes them. */
export function mappingFrom(ev: Evaluation, value: unknown): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  const opened = ev.open(value);
  if (isMapping(opened)) {
    for (const key of sortedKeys(opened)) setOwn(result, key, ownValue(opened, key));
    ev.charge(1 + Object.keys(result).length);
    return result;
  }
  for (const pair of iterate(ev, opened)) {
    const parts = iterate(ev, pair);
    if (parts.length !== 2) throw typeError('a mapping is made from a list of [key, value]');
    ev.charge(1);
    setOwn(result, keyText(ev.open(parts[0])), parts[1]);
  }
  ev.charge(1);
  return result;
}

function merge(ev: Evaluation, base: Mapping, added: Mapping, recursive: boolean, depth: number): Mapping {
  guardDepth(depth);
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(base)) setOwn(result, key, ownValue(base, key));
  for (const key of Object.keys(added)) {
    const old = ev.open(ownValue(base, key));
    const fresh = ev.open(ownValue(added, key));
    const isNested = recursive && isMapping(old) && isMapping(fresh);
    setOwn(result, key, isNested ? merge(ev, old, fresh, true, depth + 1) : fresh);
  }
  ev.charge(1 + Object.keys(result).length);
  return result;
}

function checkDepth(value: unknown, depth: number): void {
  if (typeof value !== 'object' || value === null) return;
  guardDepth(depth);
  for (const inner of Array.isArray(value) ? value : Object.values(value)) checkDepth(inner, depth + 1);
}
