import { type CallableTable, integerArgument } from './callable.ts';
import type { Evaluation } from './evaluation.ts';
import { typeError } from './failure.ts';
import { isFound, matchAtStart } from './filters/regex-filters.ts';
import { compare, contains, equals } from './operators.ts';
import { toText } from './render-text.ts';
import { describe, isMapping } from './values.ts';

type Comparison = (ev: Evaluation, value: unknown, other: unknown) => boolean;

const comparison = (symbol: string, summary: string, holds: Comparison) => ({
  params: ['other'],
  required: 1,
  summary: `${summary} (${symbol})`,
  apply: (ev: Evaluation, value: unknown, [other]: readonly unknown[]) => holds(ev, value, other),
});

const EQ = comparison('==', 'Equal to `other`.', (ev, a, b) => equals(ev, a, b));
const NE = comparison('!=', 'Not equal to `other`.', (ev, a, b) => !equals(ev, a, b));
const LT = comparison('<', 'Less than `other`.', (ev, a, b) => compare(ev, a, b, '<') < 0);
const LE = comparison('<=', 'Less than or equal to `other`.', (ev, a, b) => compare(ev, a, b, '<=') <= 0);
const GT = comparison('>', 'Greater than `other`.', (ev, a, b) => compare(ev, a, b, '>') > 0);
const GE = comparison('>=', 'Greater than or equal to `other`.', (ev, a, b) => compare(ev, a, b, '>=') >= 0);

const simple = (summary: string, holds: (value: unknown) => boolean) => ({
  params: [],
  summary,
  apply: (_ev: Evaluation, value: unknown) => holds(value),
});

const isNumber = (value: unknown) => typeof value === 'number' || typeof value === 'boolean';
const isSequence = (value: unknown) => typeof value === 'string' || Array.isArray(value) || isMapping(value);

export const TESTS: CallableTable<boolean> = {
  defined: simple('There is a value (none is one).', (value) => value !== undefined),
  undefined: simple('There is no value.', (value) => value === undefined),
  none: simple('The value is none.', (value) => value === null),
  boolean: simple('true or false.', (value) => typeof value === 'boolean'),
  true: simple('true itself.', (value) => value === true),
  false: simple('false itself.', (value) => value === false),
  number: simple('A number; as in Python a boolean too.', isNumber),
  integer: simple('A whole number.', Number.isInteger),
  float: simple('A number that is not whole.', (value) => typeof value === 'number' && !Number.isInteger(value)),
  string: simple('Text.', (value) => typeof value === 'string'),
  mapping: simple('A mapping.', isMapping),
  sequence: simple('A list, a text or a mapping.', isSequence),
  iterable: simple('Something that a `for` can visit.', (value) => value === undefined || isSequence(value)),
  list: simple('A list.', Array.isArray),
  lower: {
    params: [],
    summary: 'Text in lower case.',
    apply: (ev, value) => hasCase(ev, value, (text) => text.toLowerCase()),
  },
  upper: {
    params: [],
    summary: 'Text in upper case.',
    apply: (ev, value) => hasCase(ev, value, (text) => text.toUpperCase()),
  },
  odd: simple('An odd number.', (value) => Math.abs(remainderOf(value, 2)) === 1),
  even: simple('An even number.', (value) => remainderOf(value, 2) === 0),
  divisibleby: {
    params: ['num'],
    required: 1,
    summary: 'Divisible by `num`.',
    apply: (ev, value, [num]) => {
      const divisor = integerArgument(ev, num, 'num');
      if (divisor === 0) throw typeError('division by zero');
      return remainderOf(value, divisor) === 0;
    },
  },
  in: {
    params: ['seq'],
    required: 1,
    summary: 'Contained in `seq`.',
    apply: (ev, value, [seq]) => contains(ev, seq, value),
  },
  contains: {
    params: ['item'],
    required: 1,
    summary: 'Contains `item`.',
    apply: (ev, value, [needle]) => contains(ev, value, needle),
  },
  startingwith: {
    params: ['prefix'],
    required: 1,
    summary: 'Text that starts with `prefix`.',
    apply: (ev, value, [prefix]) => toText(ev, value).startsWith(paidText(ev, prefix)),
  },
  endingwith: {
    params: ['suffix'],
    required: 1,
    summary: 'Text that ends with `suffix`.',
    apply: (ev, value, [suffix]) => toText(ev, value).endsWith(paidText(ev, suffix)),
  },
  match: {
    params: ['pattern', 'ignorecase', 'multiline'],
    required: 1,
    summary: 'Text whose start matches a pattern.',
    apply: (ev, value, [pattern, ignoreCase, multiline]) =>
      matchAtStart(ev, toText(ev, value), pattern, ignoreCase, multiline) !== undefined,
  },
  search: {
    params: ['pattern', 'ignorecase', 'multiline'],
    required: 1,
    summary: 'Text in which a pattern matches somewhere.',
    apply: (ev, value, [pattern, ignoreCase, multiline]) =>
      isFound(ev, toText(ev, value), pattern, ignoreCase, multiline),
  },
  sameas: { ...EQ, summary: 'The same as eq.' },
  eq: EQ,
  equalto: EQ,
  '==': EQ,
  ne: NE,
  '!=': NE,
  lt: LT,
  lessthan: LT,
  '<': LT,
  le: LE,
  '<=': LE,
  gt: GT,
  greaterthan: GT,
  '>': GT,
  ge: GE,
  '>=': GE,
};

function remainderOf(value: unknown, divisor: number): number {
  if (typeof value !== 'number' && typeof value !== 'boolean') {
    throw typeError(`a number is needed here, not ${describe(value)}`);
  }
  return (Number(value) % divisor) + 0;
}

function paidText(ev: Evaluation, value: unknown): string {
  const text = toText(ev, value);
  ev.chargeText(text.length);
  return text;
}

/** Whether a text has letters, and all of them are as `change` would make them. */
function hasCase(ev: Evaluation, value: unknown, change: (text: string) => string): boolean {
  if (typeof value !== 'string') return false;
  ev.chargeText(value.length);
  return value === change(value) && value.toLowerCase() !== value.toUpperCase();
}
