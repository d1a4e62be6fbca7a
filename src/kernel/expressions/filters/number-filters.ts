import { type CallableTable, integerArgument, textArgument } from '../callable.ts';
import { limitError, typeError } from '../failure.ts';
import { fixed } from '../format-text.ts';
import { describe } from '../values.ts';

const TRUE_WORDS: ReadonlySet<string> = new Set(['true', 'yes', 'on', '1', 't', 'y']);
const FALSE_WORDS: ReadonlySet<string> = new Set(['false', 'no', 'off', '0', 'f', 'n', 'none', 'null', '']);

export const NUMBER_FILTERS: CallableTable = {
  int: {
    params: ['default', 'base'],
    summary: 'The value as a whole number, or `default` (0) if it is none.',
    apply: (ev, value, [fallback, base]) =>
      toInteger(value, integerArgument(ev, base, 'base', 10)) ?? (fallback === undefined ? 0 : fallback),
  },
  float: {
    params: ['default'],
    summary: 'The value as a number, or `default` (0) if it is none.',
    apply: (_ev, value, [fallback]) => toNumber(value) ?? (fallback === undefined ? 0 : fallback),
  },
  bool: {
    params: [],
    summary:
      'true, yes, on, 1 and false, no, off, 0 as a boolean; other values by their truth, other words are an error.',
    apply: (ev, value) => {
      if (typeof value !== 'string') return ev.truthy(value);
      const word = value.trim().toLowerCase();
      if (TRUE_WORDS.has(word)) return true;
      if (FALSE_WORDS.has(word)) return false;
      throw typeError('this text is neither true nor false; compare it with `==` instead');
    },
  },
  abs: {
    params: [],
    summary: 'The number without its sign.',
    apply: (_ev, value) => Math.abs(numberInput(value, 'abs')),
  },
  round: {
    params: ['precision', 'method'],
    summary: 'The number rounded to `precision` (0) decimals; `method` is common, ceil or floor.',
    apply: (ev, value, [precision, method]) => {
      const number = numberInput(value, 'round');
      const digits = integerArgument(ev, precision, 'precision', 0);
      if (Math.abs(digits) > 60) throw limitError('round takes at most 60 digits');
      return ev.number(round(number, digits, textArgument(ev, method, 'common')));
    },
  },
};

function numberInput(value: unknown, filter: string): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  throw typeError(`the filter '${filter}' needs a number, not ${describe(value)}; convert it with int or float`);
}

function toNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (typeof value === 'boolean') return Number(value);
  if (typeof value !== 'string') return undefined;
  const text = value.trim().replace(/(?<=\d)_(?=\d)/g, '');
  if (text.length > 400 || !/^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(text)) return undefined;
  const number = Number(text);
  return Number.isFinite(number) ? number : undefined;
}

const PREFIXES: Readonly<Record<number, string>> = { 2: '0b', 8: '0o', 16: '0x' };

function toInteger(value: unknown, base: number): number | undefined {
  if (typeof value === 'string' && base !== 10) {
    if (base < 2 || base > 36) throw typeError('the base is a number from 2 to 36');
    const text = value.trim().toLowerCase();
    const sign = text.startsWith('-') ? -1 : 1;
    const prefix = PREFIXES[base] ?? '';
    let digits = text.replace(/^[+-]/, '');
    if (prefix !== '' && digits.startsWith(prefix)) digits = digits.slice(2);
    const isValid = digits !== '' && digits.length < 300 && [...digits].every((d) => Number.parseInt(d, 36) < base);
    return isValid ? sign * Number.parseInt(digits, base) : undefined;
  }
  const number = toNumber(value);
  return number === undefined ? undefined : Math.trunc(number) + 0;
}

function round(value: number, digits: number, method: string): number {
  if (method === 'common') {
    if (digits >= 0) return Math.sign(value) * Number(fixed(Math.abs(value), digits));
    const unit = 10 ** -digits;
    return Math.sign(value) * Number(fixed(Math.abs(value) / unit, 0)) * unit;
  }
  if (method !== 'ceil' && method !== 'floor') throw typeError("round takes the method 'common', 'ceil' or 'floor'");
  const unit = 10 ** digits;
  return (method === 'ceil' ? Math.ceil(value * unit) : Math.floor(value * unit)) / unit;
}
