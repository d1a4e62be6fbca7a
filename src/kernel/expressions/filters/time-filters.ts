import { type CallableTable, textArgument } from '../callable.ts';
import { parseIso, strftime, strptime } from '../datetime-format.ts';
import { DateTimeValue, dateTimeFromEpoch } from '../datetime-value.ts';
import type { Evaluation } from '../evaluation.ts';
import { typeError } from '../failure.ts';
import { describe } from '../values.ts';

export const TIME_FILTERS: CallableTable = {
  to_datetime: {
    params: ['format'],
    summary: 'A date and time from ISO 8601 text, from text in a strptime `format`, or from seconds since 1970.',
    apply: (ev, value, [format]) => toDateTime(ev, value, format),
  },
  strftime: {
    params: ['format'],
    required: 1,
    summary: 'A date and time (or what to_datetime takes) as text in a strftime `format`.',
    apply: (ev, value, [format]) => formatTime(ev, toDateTime(ev, value, undefined), format),
  },
};

export function formatTime(ev: Evaluation, value: DateTimeValue, format: unknown): string {
  const pattern = textArgument(ev, format, '');
  ev.checkLength(pattern.length);
  ev.charge(1 + pattern.length);
  return ev.text(strftime(value, pattern));
}

function toDateTime(ev: Evaluation, value: unknown, format: unknown): DateTimeValue {
  if (value instanceof DateTimeValue) return value;
  // The moment becomes text when it leaves the template, which counts as building something.
  ev.charge(1);
  if (typeof value === 'number') {
    const moment = dateTimeFromEpoch(value);
    if (moment === undefined) throw typeError('this number of seconds is outside of the years 1 to 9999');
    return moment;
  }
  if (typeof value !== 'string') throw typeError(`a time is read from text or seconds, not from ${describe(value)}`);
  if (value.length > 200) throw typeError('this text is too long for a time');
  const pattern = format === undefined ? undefined : textArgument(ev, format, '');
  if (pattern !== undefined && pattern.length > 200) throw typeError('this time format is too long');
  const moment = pattern === undefined ? parseIso(value) : strptime(value, pattern);
  if (moment === undefined) {
    const expected = pattern === undefined ? 'an ISO 8601 time; name its format' : `a time in the format '${pattern}'`;
    throw typeError(`this text is not ${expected}`);
  }
  return moment;
}
