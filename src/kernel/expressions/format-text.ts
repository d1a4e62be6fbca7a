import type { Evaluation } from './evaluation.ts';
import { forbidden, typeError } from './failure.ts';
import { numberText, toJson, toText } from './render-text.ts';
import { characters, describe, hasOwnValue, isMapping, lengthOfText, type Mapping, ownValue } from './values.ts';

// Bounded repetitions: with `*` a row of zeros, which are flags and digits, would be tried in all divisions.
const PRINTF = /%(?:\((\w+)\))?([-+ 0#]{0,5})(\d{1,10}|\*)?(?:\.(\d{1,10}))?([a-zA-Z%])/g;
const FIELD = /\{\{|\}\}|\{([^{}]*)\}|[{}]/g;
const SPEC = /^(?:(.)?([<>=^]))?([-+ ])?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([a-zA-Z%])?$/su;

interface NumberStyle {
  readonly sign: string;
  readonly precision: number | undefined;
  readonly grouping: string;
}

/** Python's `format % values`. */
export function printf(ev: Evaluation, format: string, values: readonly unknown[]): string {
  ev.chargeText(format.length * 4);
  let next = 0;
  let length = format.length;
  const mapping = values.length === 1 && isMapping(values[0]) ? values[0] : undefined;
  const text = format.replace(
    PRINTF,
    (whole, key: string | undefined, flags: string, width, precision, type: string) => {
      if (type === '%') return '%';
      if (width === '*') throw typeError(`the format '${whole}' is not supported`);
      let value: unknown;
      if (key !== undefined) {
        if (mapping === undefined) throw typeError('a format with names needs a mapping');
        value = ownValue(mapping, key);
      } else {
        if (next >= values.length) throw typeError('the format has more placeholders than there are values');
        value = values[next++];
      }
      const style = {
        sign: flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '-',
        precision: digits(precision),
        grouping: '',
      };
      const isText = type === 's' || type === 'r' || type === 'a';
      const body = isText
        ? cut(ev, value, style.precision)
        : formatNumber(value, type === 'i' || type === 'u' ? 'd' : type, style);
      const align = flags.includes('-') ? '<' : flags.includes('0') && !isText ? '=' : '>';
      const out = pad(ev, body, digits(width) ?? 0, align, align === '=' ? '0' : ' ');
      length += out.length;
      ev.checkLength(length);
      return out;
    },
  );
  if (mapping === undefined && next < values.length)
    throw typeError('the format has fewer placeholders than there are values');
  return ev.text(text);
}

/** Python's `'{} {name:>8}'.format(...)`, without attribute or item access inside the braces. */
export function formatFields(ev: Evaluation, format: string, values: readonly unknown[], names: Mapping): string {
  ev.chargeText(format.length * 4);
  let next = 0;
  let length = format.length;
  const text = format.replace(FIELD, (whole, field: string | undefined) => {
    if (whole === '{{') return '{';
    if (whole === '}}') return '}';
    if (field === undefined) throw typeError(`the format has a single '${whole}'; write it twice`);
    const cutAt = field.search(/[!:]/);
    const name = cutAt === -1 ? field : field.slice(0, cutAt);
    if (/[.[]/.test(name)) throw forbidden('a format cannot reach into values; pass the part itself');
    const index = name === '' ? next++ : /^\d+$/.test(name) ? Number(name) : undefined;
    const isGiven = index === undefined ? hasOwnValue(names, name) : index < values.length;
    if (!isGiven) throw typeError(`the format names '${index ?? name}', which was not given`);
    const value = index === undefined ? ownValue(names, name) : values[index];
    const spec =
      cutAt === -1
        ? ''
        : field
            .slice(cutAt)
            .replace(/^![rsa]/, '')
            .replace(/^:/, '');
    const out = formatSpec(ev, ev.open(value), spec);
    length += out.length;
    ev.checkLength(length);
    return out;
  });
  return ev.text(text);
}

function formatSpec(ev: Evaluation, value: unknown, spec: string): string {
  if (spec === '') return toText(ev, value);
  const match = SPEC.exec(spec);
  if (match === null) throw typeError(`the format specification '${spec}' is not supported`);
  const [, fill, alignment, sign, , zero, width, grouping, precision, type] = match;
  const isNumber = typeof value === 'number' || (typeof value === 'boolean' && type !== 's');
  const style = { sign: sign ?? '-', precision: digits(precision), grouping: grouping ?? '' };
  const body = isNumber ? formatNumber(value, type ?? '', style) : cut(ev, value, style.precision);
  if (!isNumber && type !== undefined && type !== 's')
    throw typeError(`the format '${type}' cannot take ${describe(value)}`);
  const align = alignment ?? (zero !== undefined ? '=' : isNumber ? '>' : '<');
  return pad(ev, body, digits(width) ?? 0, align, fill ?? (zero === undefined ? ' ' : '0'));
}

function digits(text: unknown): number | undefined {
  return typeof text === 'string' ? Number(text) : undefined;
}

function cut(ev: Evaluation, value: unknown, precision: number | undefined): string {
  const opened = ev.open(value);
  const text = typeof opened === 'object' && opened !== null ? toJsonOrText(ev, opened) : toText(ev, opened);
  return precision === undefined ? text : characters(ev, text).slice(0, precision).join('');
}

function toJsonOrText(ev: Evaluation, value: object): string {
  return Array.isArray(value) || isMapping(value) ? toJson(ev, value) : toText(ev, value);
}

function formatNumber(value: unknown, type: string, style: NumberStyle): string {
  const number = typeof value === 'boolean' ? Number(value) : value;
  if (typeof number !== 'number') throw typeError(`the format '${type}' needs a number, not ${describe(value)}`);
  if (style.precision !== undefined && style.precision > 100) throw typeError('a number has at most 100 decimals here');
  const size = Math.abs(number);
  const sign = number < 0 ? '-' : style.sign === '-' ? '' : style.sign;
  return sign + group(unsigned(size, type, style.precision), style.grouping);
}

function unsigned(size: number, type: string, precision: number | undefined): string {
  switch (type) {
    case 'd':
    case 'n':
      return numberText(Math.trunc(size));
    case 'f':
    case 'F':
      return fixed(size, precision ?? 6);
    case 'e':
    case 'E': {
      const text = size.toExponential(precision ?? 6).replace(/e([+-])(\d)$/, 'e$10$2');
      return type === 'E' ? text.toUpperCase() : text;
    }
    case '%':
      return `${fixed(size * 100, precision ?? 6)}%`;
    case 'x':
      return Math.trunc(size).toString(16);
    case 'X':
      return Math.trunc(size).toString(16).toUpperCase();
    case 'o':
      return Math.trunc(size).toString(8);
    case 'b':
      return Math.trunc(size).toString(2);
    case '':
    case 'g':
    case 'G': {
      if (precision === undefined && type === '') return numberText(size);
      const text = size.toPrecision(Math.max(1, precision ?? 6));
      const short = text.includes('.') ? text.replace(/\.?0+(?=e|$)/, '') : text;
      return short.replace(/e([+-])(\d)$/, 'e$10$2');
    }
    default:
      throw typeError(`the format '${type}' is not supported`);
  }
}

/** Python rounds an exact half to the even neighbour, JavaScript away from zero. */
export function fixed(size: number, precision: number): string {
  const text = size.toFixed(precision);
  if (size >= 1e21 || precision > 60) return text;
  const exact = size.toFixed(precision + 40);
  const tail = exact.slice(exact.length - 40);
  if (!/^50*$/.test(tail)) return text;
  const down = precision === 0 ? exact.slice(0, -41) : exact.slice(0, -40);
  return /[02468]$/.test(down) ? down : text;
}

function group(text: string, separator: string): string {
  if (separator === '') return text;
  const cutAt = text.search(/[.e%]/);
  const whole = cutAt === -1 ? text : text.slice(0, cutAt);
  return whole.replace(/\B(?=(?:\d{3})+$)/g, separator) + (cutAt === -1 ? '' : text.slice(cutAt));
}

function pad(ev: Evaluation, text: string, width: number, align: string, fill: string): string {
  const missing = width - lengthOfText(text);
  if (missing <= 0) return text;
  ev.checkLength(width);
  if (align === '<') return text + fill.repeat(missing);
  if (align === '^') return fill.repeat(missing >> 1) + text + fill.repeat(missing - (missing >> 1));
  const sign = align === '=' && /^[-+ ]/.test(text) ? text[0]! : '';
  return sign + fill.repeat(missing) + text.slice(sign.length);
}
