import { booleanArgument, type Callable, integerArgument } from './callable.ts';
import { DateTimeValue } from './datetime-value.ts';
import type { Evaluation } from './evaluation.ts';
import { typeError } from './failure.ts';
import { itemsOf, keysOf, valuesOf } from './filters/mapping-filters.ts';
import { formatTime } from './filters/time-filters.ts';
import { formatFields } from './format-text.ts';
import { LoopValue } from './local-values.ts';
import { equals } from './operators.ts';
import {
  capitalizeText,
  replaceText,
  splitLines,
  splitText,
  splitTextFromRight,
  stripText,
  titleText,
} from './text-functions.ts';
import { placeOf, splitOn } from './text-search.ts';
import { describe, hasOwnValue, isMapping, keyText, lengthOfText, type Mapping, ownValue } from './values.ts';

type Receiver = 'text' | 'list' | 'mapping' | 'time' | 'loop';
type Apply = Callable['apply'];

interface Method extends Omit<Callable, 'apply'> {
  readonly on: Partial<Record<Receiver, Apply>>;
}

const text = (
  summary: string,
  params: readonly string[],
  apply: (ev: Evaluation, value: string, args: readonly unknown[]) => unknown,
  required = 0,
): Method => ({
  params,
  required,
  summary,
  on: {
    text: (ev, value, args) => {
      ev.chargeText((value as string).length);
      return apply(ev, value as string, args);
    },
  },
});

const strip = (side: 'left' | 'right' | 'both', where: string) =>
  text(`Without white space (or \`chars\`) ${where}.`, ['chars'], (ev, value, [chars]) =>
    ev.text(stripText(value, optionalText(chars), side)),
  );

const affix = (summary: string, holds: (value: string, part: string) => boolean) =>
  text(
    summary,
    ['part'],
    (ev, value, [part]) => {
      const parts = ev.open(part);
      return (Array.isArray(parts) ? parts : [parts]).some((one) => holds(value, requireText(one)));
    },
    1,
  );

const table: Readonly<Record<string, Method>> = {
  get: {
    params: ['key', 'default'],
    required: 1,
    summary: 'The value of a key, or `default` (none).',
    on: {
      mapping: (ev, value, [key, fallback]) => {
        const name = keyText(ev.open(key));
        if (hasOwnValue(value as Mapping, name)) return ownValue(value as Mapping, name);
        return fallback === undefined ? null : fallback;
      },
    },
  },
  items: { params: [], summary: 'List of [key, value].', on: { mapping: (ev, value) => itemsOf(ev, value, 'items') } },
  keys: { params: [], summary: 'List of keys.', on: { mapping: (ev, value) => keysOf(ev, value, 'keys') } },
  values: { params: [], summary: 'List of values.', on: { mapping: (ev, value) => valuesOf(ev, value, 'values') } },
  index: {
    params: ['value'],
    required: 1,
    summary: 'Position of an item or of a part of a text; an error if there is none.',
    on: {
      list: (ev, value, [wanted]) => {
        const found = (value as readonly unknown[]).findIndex((element) => equals(ev, element, wanted));
        ev.charge(1 + Math.abs(found));
        if (found === -1) throw typeError('the list has no such item');
        return found;
      },
      text: (ev, value, [part]) => {
        const found = position(ev, value as string, requireText(ev.open(part)));
        if (found === -1) throw typeError('the text has no such part');
        return found;
      },
    },
  },
  count: {
    params: ['value'],
    required: 1,
    summary: 'How often an item or a part of a text occurs.',
    on: {
      list: (ev, value, [wanted]) => {
        ev.charge((value as readonly unknown[]).length);
        return (value as readonly unknown[]).filter((element) => equals(ev, element, wanted)).length;
      },
      text: (ev, value, [part]) => {
        ev.chargeText((value as string).length * 4);
        const wanted = requireText(ev.open(part));
        return wanted === '' ? lengthOfText(value as string) + 1 : splitOn(value as string, wanted).length - 1;
      },
    },
  },
  lower: text('In lower case.', [], (ev, value) => ev.text(value.toLowerCase())),
  upper: text('In upper case.', [], (ev, value) => ev.text(value.toUpperCase())),
  title: text('Each word with a capital.', [], (ev, value) => ev.text(titleText(value))),
  capitalize: text('The first letter as a capital.', [], (ev, value) => ev.text(capitalizeText(value))),
  strip: strip('both', 'at both ends'),
  lstrip: strip('left', 'at the start'),
  rstrip: strip('right', 'at the end'),
  split: text(
    'List of the parts between `sep`, or between white space.',
    ['sep', 'maxsplit'],
    (ev, value, [sep, most]) => splitText(ev, value, optionalText(sep), integerArgument(ev, most, 'maxsplit', -1)),
  ),
  rsplit: text('As split, counting `maxsplit` from the end.', ['sep', 'maxsplit'], (ev, value, [sep, most]) =>
    splitTextFromRight(ev, value, optionalText(sep), integerArgument(ev, most, 'maxsplit', -1)),
  ),
  splitlines: text('List of lines.', ['keepends'], (ev, value, [keepEnds]) =>
    ev.list(splitLines(ev, value, booleanArgument(ev, keepEnds, false))),
  ),
  startswith: affix('Whether it starts with a text, or one of a list.', (value, part) => value.startsWith(part)),
  endswith: affix('Whether it ends with a text, or one of a list.', (value, part) => value.endsWith(part)),
  replace: text(
    'With `old` replaced by `new`, at most `count` times.',
    ['old', 'new', 'count'],
    (ev, value, [old, fresh, count]) =>
      replaceText(ev, value, requireText(old), requireText(fresh), integerArgument(ev, count, 'count', -1)),
    2,
  ),
  join: text(
    'The texts of a list with this text between them.',
    ['iterable'],
    (ev, value, [list]) => {
      const parts = ev.open(list);
      if (!Array.isArray(parts)) throw typeError(`join needs a list, not ${describe(parts)}`);
      let length = 0;
      for (const part of parts) {
        length += requireText(ev.open(part)).length + value.length;
        ev.charge(1);
        ev.checkLength(length);
      }
      return ev.text(parts.map((part) => ev.open(part)).join(value));
    },
    1,
  ),
  format: {
    params: [],
    variadic: true,
    summary: "`'{} of {n:>3}'.format(a, n=b)`: the values in their places.",
    on: { text: (ev, value, args, keywords) => formatFields(ev, value as string, args, keywords) },
  },
  find: text('Position of a part, or -1.', ['sub'], (ev, value, [part]) => position(ev, value, requireText(part)), 1),
  isdigit: text('Whether all characters are digits.', [], (_ev, value) => /^\p{Nd}+$/u.test(value)),
  isalpha: text('Whether all characters are letters.', [], (_ev, value) => /^\p{L}+$/u.test(value)),
  isalnum: text('Whether all characters are letters or digits.', [], (_ev, value) => /^[\p{L}\p{Nd}]+$/u.test(value)),
  isupper: text(
    'Whether all letters are capitals.',
    [],
    (_ev, value) => value !== value.toLowerCase() && value === value.toUpperCase(),
  ),
  islower: text(
    'Whether no letter is a capital.',
    [],
    (_ev, value) => value !== value.toUpperCase() && value === value.toLowerCase(),
  ),
  zfill: text(
    'Filled with zeros on the left to `width`.',
    ['width'],
    (ev, value, [width]) => {
      const missing = integerArgument(ev, width, 'width') - lengthOfText(value);
      if (missing <= 0) return value;
      ev.checkLength(value.length + missing);
      const sign = /^[+-]/.test(value) ? value[0]! : '';
      return ev.text(sign + '0'.repeat(missing) + value.slice(sign.length));
    },
    1,
  ),
  strftime: {
    params: ['format'],
    required: 1,
    summary: 'The time as text in a `format`.',
    on: { time: (ev, value, [format]) => formatTime(ev, value as DateTimeValue, format) },
  },
  isoformat: {
    params: [],
    summary: 'The time in ISO 8601.',
    on: { time: (_ev, value) => (value as DateTimeValue).isoFormat() },
  },
  timestamp: {
    params: [],
    summary: 'Seconds since 1970.',
    on: { time: (_ev, value) => (value as DateTimeValue).timestamp() },
  },
  weekday: {
    params: [],
    summary: 'Day of the week, Monday is 0.',
    on: { time: (_ev, value) => (value as DateTimeValue).weekday() },
  },
  cycle: {
    params: [],
    variadic: true,
    summary: '`loop.cycle(a, b)`: the arguments in turn.',
    on: { loop: (_ev, value, args) => (value as LoopValue).cycle(args) },
  },
  changed: {
    params: [],
    variadic: true,
    summary: '`loop.changed(x)`: whether it differs from the pass before.',
    on: { loop: (ev, value, args) => (value as LoopValue).changed(ev, args) },
  },
};

/** What a template can call on a value. Python's names; the data's own keys are never called. */
export const METHODS: Readonly<Record<string, Callable & { readonly receivers: readonly string[] }>> =
  Object.fromEntries(
    Object.entries(table).map(([name, { on, ...rest }]) => [
      name,
      {
        ...rest,
        receivers: Object.keys(on),
        apply: (ev: Evaluation, value: unknown, args: readonly unknown[], keywords: Mapping) => {
          const apply = on[kindOf(value)!];
          if (apply !== undefined) return apply(ev, value, args, keywords);
          throw typeError(`${describe(value)} has no method '${name}'; it belongs to ${Object.keys(on).join(' and ')}`);
        },
      },
    ]),
  );

/** Python's methods that change their object, and what to write instead. */
export const REFUSED_METHODS: Readonly<Record<string, string>> = {
  append: 'write `list + [item]`',
  extend: 'write `list + other`',
  insert: 'write `list[:i] + [item] + list[i:]`',
  remove: "write `list | reject('eq', item)`",
  pop: 'read the item, and use a slice or `reject` for the rest',
  clear: 'use an empty list or mapping',
  sort: 'use the filter `sort`',
  reverse: 'use the filter `reverse`',
  update: 'use the filter `combine`',
  setdefault: 'use `.get(key, default)`',
  popitem: 'use `items` with `first` or `last`',
  add: 'write `list + [item]`',
};

function kindOf(value: unknown): Receiver | undefined {
  if (typeof value === 'string') return 'text';
  if (Array.isArray(value)) return 'list';
  if (value instanceof DateTimeValue) return 'time';
  if (value instanceof LoopValue) return 'loop';
  return isMapping(value) ? 'mapping' : undefined;
}

function requireText(value: unknown): string {
  if (typeof value !== 'string') throw typeError(`text is needed here, not ${describe(value)}`);
  return value;
}

function optionalText(value: unknown): string | undefined {
  return value === undefined || value === null ? undefined : requireText(value);
}

/** Index in characters, not in UTF-16 units. */
function position(ev: Evaluation, value: string, part: string): number {
  ev.chargeText(value.length * 4);
  const index = placeOf(value, part);
  return index <= 0 ? index : lengthOfText(value.slice(0, index));
}
