import { booleanArgument, type CallableTable, integerArgument, textArgument } from '../callable.ts';
import type { Evaluation } from '../evaluation.ts';
import { typeError } from '../failure.ts';
import { printf } from '../format-text.ts';
import { toText } from '../render-text.ts';
import { capitalizeText, indentText, replaceText, splitText, stripText, titleWords } from '../text-functions.ts';
import { characters, lengthOfText } from '../values.ts';

export const TEXT_FILTERS: CallableTable = {
  string: { params: [], summary: 'The value as text.', apply: (ev, value) => toText(ev, value) },
  lower: {
    params: [],
    summary: 'Text in lower case.',
    apply: (ev, value) => ev.text(input(ev, value).toLowerCase()),
  },
  upper: {
    params: [],
    summary: 'Text in upper case.',
    apply: (ev, value) => ev.text(input(ev, value).toUpperCase()),
  },
  title: {
    params: [],
    summary: 'Each word with a capital.',
    apply: (ev, value) => ev.text(titleWords(input(ev, value))),
  },
  capitalize: {
    params: [],
    summary: 'The first letter as a capital, the rest in lower case.',
    apply: (ev, value) => ev.text(capitalizeText(input(ev, value))),
  },
  trim: {
    params: ['chars'],
    summary: 'Text without white space (or `chars`) at both ends.',
    apply: (ev, value, [chars]) => ev.text(stripText(input(ev, value), charsArgument(chars), 'both')),
  },
  replace: {
    params: ['old', 'new', 'count'],
    required: 2,
    summary: 'Text with `old` replaced by `new`, at most `count` times.',
    apply: (ev, value, [old, fresh, count]) =>
      replaceText(ev, input(ev, value), toText(ev, old), toText(ev, fresh), integerArgument(ev, count, 'count', -1)),
  },
  split: {
    params: ['sep', 'maxsplit'],
    summary: 'List of the parts between `sep`, or between white space.',
    apply: (ev, value, [sep, maxsplit]) =>
      splitText(ev, input(ev, value), charsArgument(sep), integerArgument(ev, maxsplit, 'maxsplit', -1)),
  },
  format: {
    params: [],
    variadic: true,
    summary: "`'%s of %d' | format(a, b)`: the values in printf style.",
    apply: (ev, value, args, keywords) =>
      printf(ev, input(ev, value), Object.keys(keywords).length > 0 ? [keywords] : args.map((arg) => ev.open(arg))),
  },
  center: {
    params: ['width'],
    summary: 'Text centred in `width` (80) characters.',
    apply: (ev, value, [width]) => {
      const text = input(ev, value);
      const missing = integerArgument(ev, width, 'width', 80) - lengthOfText(text);
      if (missing <= 0) return text;
      ev.checkLength(text.length + missing);
      // Python puts the odd space on the left if the width is odd.
      const left = (missing >> 1) + (missing & integerArgument(ev, width, 'width', 80) & 1);
      return ev.text(' '.repeat(left) + text + ' '.repeat(missing - left));
    },
  },
  indent: {
    params: ['width', 'first', 'blank'],
    summary: 'Lines after the first (or all, with `first`) indented by `width` (4) spaces.',
    apply: (ev, value, [width, first, blank]) => {
      const unit = ev.open(width);
      const spaces = integerArgument(ev, typeof unit === 'string' ? 0 : width, 'width', 4);
      ev.checkLength(spaces);
      const prefix = typeof unit === 'string' ? unit : ' '.repeat(Math.max(0, spaces));
      const options = { first: booleanArgument(ev, first, false), blank: booleanArgument(ev, blank, false) };
      return indentText(ev, input(ev, value), prefix, options);
    },
  },
  truncate: {
    params: ['length', 'killwords', 'end', 'leeway'],
    summary: 'Text cut to `length` (255) characters at a word, ending in `end` (...).',
    apply: (ev, value, [lengthArg, killwords, endArg, leewayArg]) => {
      const text = characters(ev, toText(ev, value));
      const length = integerArgument(ev, lengthArg, 'length', 255);
      const end = textArgument(ev, endArg, '...');
      const leeway = integerArgument(ev, leewayArg, 'leeway', 5);
      if (length < end.length || leeway < 0) throw typeError('truncate: `length` is shorter than `end`');
      if (text.length <= length + leeway) return text.join('');
      const head = text.slice(0, length - end.length).join('');
      if (booleanArgument(ev, killwords, false)) return head + end;
      const lastSpace = head.lastIndexOf(' ');
      return (lastSpace === -1 ? head : head.slice(0, lastSpace)) + end;
    },
  },
  wordcount: {
    params: [],
    summary: 'The number of words.',
    apply: (ev, value) => {
      const text = input(ev, value);
      ev.chargeText(text.length);
      return text.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0;
    },
  },
  escape: {
    params: [],
    summary: 'Text with & < > and quotes escaped for HTML.',
    apply: (ev, value) => escapeHtml(ev, value),
  },
  e: { params: [], summary: 'The same as escape.', apply: (ev, value) => escapeHtml(ev, value) },
  safe: { params: [], summary: 'The value itself: templates here do not escape.', apply: (_ev, value) => value },
};

const HTML: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };

function escapeHtml(ev: Evaluation, value: unknown): string {
  const text = input(ev, value);
  ev.checkLength(text.length);
  return ev.text(text.replace(/[&<>"']/g, (char) => HTML[char]!));
}

function charsArgument(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw typeError('the characters are given as text');
  return value;
}

/** The text that a filter works on, paid for whatever becomes of it. */
function input(ev: Evaluation, value: unknown): string {
  const text = toText(ev, value);
  ev.chargeText(text.length);
  return text;
}
