import { attributeReader, booleanArgument, type CallableTable, integerArgument, textArgument } from '../callable.ts';
import type { Evaluation } from '../evaluation.ts';
import { typeError } from '../failure.ts';
import { add, compare, equals } from '../operators.ts';
import { toJson, toText } from '../render-text.ts';
import { characters, describe, isMapping, iterate, lengthOfText } from '../values.ts';

export const LIST_FILTERS: CallableTable = {
  length: { params: [], summary: 'Number of items, keys or characters.', apply: lengthOf },
  count: { params: [], summary: 'The same as length.', apply: lengthOf },
  first: { params: [], summary: 'The first item.', apply: (ev, value) => iterate(ev, value)[0] },
  last: { params: [], summary: 'The last item.', apply: (ev, value) => iterate(ev, value).at(-1) },
  list: {
    params: [],
    summary: 'Items, characters or keys as a list.',
    apply: (ev, value) => ev.list([...iterate(ev, value)]),
  },
  reverse: {
    params: [],
    summary: 'A list or text from its end to its start.',
    apply: (ev, value) => {
      if (typeof value === 'string') return ev.text([...characters(ev, value)].reverse().join(''));
      return ev.list([...iterate(ev, value)].reverse());
    },
  },
  join: {
    params: ['d', 'attribute'],
    summary: 'All items as one text, with `d` between them.',
    apply: (ev, value, [separator, attribute]) => {
      const between = textArgument(ev, separator, '');
      const read = attribute === undefined ? undefined : attributeReader(ev, attribute);
      let out = '';
      for (const [i, element] of iterate(ev, value).entries()) {
        const text = toText(ev, read === undefined ? element : read(element));
        ev.checkLength(out.length + between.length + text.length);
        ev.chargeText(between.length + text.length);
        out += i === 0 ? text : between + text;
      }
      return out;
    },
  },
  sort: {
    params: ['reverse', 'case_sensitive', 'attribute'],
    summary: 'The items in order; `attribute` may name several, separated by commas.',
    apply: (ev, value, [reverse, caseSensitive, attribute]) => {
      const keyOf = sortKey(ev, attribute, booleanArgument(ev, caseSensitive, false));
      return sorted(ev, iterate(ev, value), keyOf, booleanArgument(ev, reverse, false));
    },
  },
  unique: {
    params: ['case_sensitive', 'attribute'],
    summary: 'The items without repetitions.',
    apply: (ev, value, [caseSensitive, attribute]) => {
      const keyOf = singleKey(ev, attribute, booleanArgument(ev, caseSensitive, false));
      const seen = new Set<string>();
      const out: unknown[] = [];
      for (const element of iterate(ev, value)) {
        const key = identity(ev, keyOf(element));
        if (seen.has(key)) continue;
        seen.add(key);
        out.push(element);
      }
      return ev.list(out);
    },
  },
  sum: {
    params: ['attribute', 'start'],
    summary: 'The sum of the items, beginning with `start` (0).',
    apply: (ev, value, [attribute, start]) => {
      const read = attribute === undefined || attribute === null ? undefined : attributeReader(ev, attribute);
      let total: unknown = start ?? 0;
      for (const element of iterate(ev, value)) {
        ev.charge(1);
        total = add(ev, total, read === undefined ? element : read(element));
      }
      return total;
    },
  },
  min: {
    params: ['case_sensitive', 'attribute'],
    summary: 'The smallest item.',
    apply: (ev, value, [caseSensitive, attribute]) => extreme(ev, value, caseSensitive, attribute, -1),
  },
  max: {
    params: ['case_sensitive', 'attribute'],
    summary: 'The largest item.',
    apply: (ev, value, [caseSensitive, attribute]) => extreme(ev, value, caseSensitive, attribute, 1),
  },
  batch: {
    params: ['linecount', 'fill_with'],
    required: 1,
    summary: 'Lists of `linecount` items each; the last is filled up with `fill_with`.',
    apply: (ev, value, [size, fill]) => {
      const count = integerArgument(ev, size, 'linecount');
      if (count < 1) throw typeError('batch needs a size of at least 1');
      const items = iterate(ev, value);
      const out: unknown[] = [];
      for (let i = 0; i < items.length; i += count) out.push(filled(ev, items.slice(i, i + count), count, fill));
      return ev.list(out);
    },
  },
  slice: {
    params: ['slices', 'fill_with'],
    required: 1,
    summary: 'The items dealt out to `slices` lists.',
    apply: (ev, value, [slices, fill]) => {
      const count = integerArgument(ev, slices, 'slices');
      if (count < 1) throw typeError('slice needs at least 1 list');
      ev.checkItems(count);
      const items = iterate(ev, value);
      const size = Math.floor(items.length / count);
      const longer = items.length % count;
      const out: unknown[] = [];
      let start = 0;
      for (let i = 0; i < count; i++) {
        const end = start + size + (i < longer ? 1 : 0);
        const part = items.slice(start, end);
        out.push(i < longer || longer === 0 ? ev.list(part) : filled(ev, part, size + 1, fill));
        start = end;
      }
      return ev.list(out);
    },
  },
  groupby: {
    params: ['attribute', 'default', 'case_sensitive'],
    required: 1,
    summary: 'Groups of items with an equal attribute, in its order: mappings `grouper`, `list`, or pairs in a `for`.',
    apply: (ev, value, [attribute, fallback, caseSensitive]) => {
      const isCaseSensitive = booleanArgument(ev, caseSensitive, false);
      const read = attributeReader(ev, attribute);
      const withDefault = (element: unknown) => {
        const found = read(element);
        return found === undefined ? fallback : found;
      };
      const keyOf = (element: unknown) => foldCase(ev, ev.open(withDefault(element)), isCaseSensitive);
      const out: { grouper: unknown; list: unknown[] }[] = [];
      let last: unknown;
      for (const element of sorted(ev, iterate(ev, value), keyOf, false)) {
        const key = keyOf(element);
        const current = out.at(-1);
        if (current !== undefined && equals(ev, key, last)) current.list.push(element);
        else out.push({ grouper: withDefault(element), list: [element] });
        last = key;
      }
      for (const found of out) ev.markPair(found, [found.grouper, found.list]);
      return ev.list(out);
    },
  },
  flatten: {
    params: ['levels'],
    summary: 'Lists inside the list replaced by their items.',
    apply: (ev, value, [levels]) => {
      const out: unknown[] = [];
      const depth = integerArgument(ev, levels, 'levels', 50);
      const visit = (items: readonly unknown[], left: number) => {
        for (const element of items) {
          ev.charge(1);
          const opened = ev.open(element);
          if (Array.isArray(opened) && left > 0) visit(opened, left - 1);
          else out.push(element);
        }
      };
      visit(iterate(ev, value), Math.min(depth, 50));
      return ev.list(out);
    },
  },
};

function lengthOf(ev: Evaluation, value: unknown): number {
  if (typeof value === 'string') {
    ev.chargeText(value.length);
    return lengthOfText(value);
  }
  if (Array.isArray(value)) return value.length;
  if (value === undefined) return 0;
  if (isMapping(value)) {
    const { length } = Object.keys(value);
    ev.charge(1 + length);
    return length;
  }
  throw typeError(`${describe(value)} has no length`);
}

function filled(ev: Evaluation, part: unknown[], size: number, fill: unknown): unknown[] {
  if (fill !== undefined && fill !== null) {
    ev.checkItems(size);
    while (part.length < size) part.push(fill);
  }
  return ev.list(part);
}

function foldCase(ev: Evaluation, value: unknown, isCaseSensitive: boolean): unknown {
  if (typeof value !== 'string') return value;
  ev.chargeText(value.length);
  return isCaseSensitive ? value : value.toLowerCase();
}

function singleKey(ev: Evaluation, attribute: unknown, isCaseSensitive: boolean): (value: unknown) => unknown {
  const read = attribute === undefined || attribute === null ? undefined : attributeReader(ev, attribute);
  return (value) => foldCase(ev, ev.open(read === undefined ? value : read(value)), isCaseSensitive);
}

function sortKey(ev: Evaluation, attribute: unknown, isCaseSensitive: boolean): (value: unknown) => unknown {
  if (typeof attribute !== 'string' || !attribute.includes(',')) return singleKey(ev, attribute, isCaseSensitive);
  const readers = attribute.split(',').map((part) => singleKey(ev, part.trim(), isCaseSensitive));
  return (value) => readers.map((read) => read(value));
}

function sorted(
  ev: Evaluation,
  items: readonly unknown[],
  keyOf: (value: unknown) => unknown,
  reverse: boolean,
): unknown[] {
  ev.charge(items.length * Math.ceil(Math.log2(items.length + 2)));
  const keyed = items.map((value) => ({ value, key: keyOf(value) }));
  keyed.sort((a, b) => (reverse ? compare(ev, b.key, a.key, 'sort') : compare(ev, a.key, b.key, 'sort')));
  return ev.list(keyed.map(({ value }) => value));
}

function extreme(ev: Evaluation, value: unknown, caseSensitive: unknown, attribute: unknown, sign: 1 | -1): unknown {
  const keyOf = singleKey(ev, attribute, booleanArgument(ev, caseSensitive, false));
  let best: unknown;
  let bestKey: unknown;
  for (const [i, element] of iterate(ev, value).entries()) {
    ev.charge(1);
    const key = keyOf(element);
    if (i > 0 && compare(ev, key, bestKey, sign > 0 ? 'max' : 'min') * sign <= 0) continue;
    best = element;
    bestKey = key;
  }
  return best;
}

/** Equal values have the same identity, whatever their type: `1` and `true` are one, as in Python. */
function identity(ev: Evaluation, value: unknown): string {
  ev.charge(1);
  if (typeof value === 'string') {
    ev.chargeText(value.length);
    return `s${value}`;
  }
  if (typeof value === 'number' || typeof value === 'boolean') return `n${Number(value)}`;
  return value === undefined ? 'u' : `j${toJson(ev, value)}`;
}
