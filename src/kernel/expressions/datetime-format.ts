import {
  type DateTimeFields,
  type DateTimeValue,
  dateTime,
  dateTimeFromEpoch,
  pad,
  zoneText,
} from './datetime-value.ts';
import { typeError } from './failure.ts';

const DAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const ISO =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)? ?(Z|z|[+-]\d{2}(?::?\d{2})?)?$/;

/** Python's strftime in the C locale, for the directives that have one meaning everywhere. */
export function strftime(value: DateTimeValue, format: string): string {
  const f = value.fields;
  const write = (directive: string): string => {
    const hour12 = f.hour % 12 === 0 ? 12 : f.hour % 12;
    switch (directive) {
      case 'Y':
        return pad(f.year, 4);
      case 'm':
        return pad(f.month);
      case 'd':
        return pad(f.day);
      case 'e':
        return String(f.day).padStart(2, ' ');
      case 'H':
        return pad(f.hour);
      case 'I':
        return pad(hour12);
      case 'M':
        return pad(f.minute);
      case 'S':
        return pad(f.second);
      case 'f':
        return pad(f.microsecond, 6);
      case 'y':
        return pad(f.year % 100);
      case 'j':
        return pad(value.dayOfYear(), 3);
      case 'p':
        return f.hour < 12 ? 'AM' : 'PM';
      case 'A':
        return DAYS[value.weekday()]!;
      case 'a':
        return DAYS[value.weekday()]!.slice(0, 3);
      case 'B':
        return MONTHS[f.month - 1]!;
      case 'b':
      case 'h':
        return MONTHS[f.month - 1]!.slice(0, 3);
      case 'u':
        return String(value.weekday() + 1);
      case 'w':
        return String((value.weekday() + 1) % 7);
      case 'U':
        return pad(Math.floor((value.dayOfYear() + 6 - ((value.weekday() + 1) % 7)) / 7));
      case 'W':
        return pad(Math.floor((value.dayOfYear() + 6 - value.weekday()) / 7));
      case 'z':
        return f.offset === undefined ? '' : zoneText(f.offset, '');
      case 'Z':
        return f.offset === undefined ? '' : f.offset === 0 ? 'UTC' : `UTC${zoneText(f.offset, ':')}`;
      case 's':
        return String(value.epochSeconds());
      case 'F':
        return `${write('Y')}-${write('m')}-${write('d')}`;
      case 'T':
        return `${write('H')}:${write('M')}:${write('S')}`;
      case 'R':
        return `${write('H')}:${write('M')}`;
      case 'D':
        return `${write('m')}/${write('d')}/${write('y')}`;
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case '%':
        return '%';
      default:
        throw typeError(`the time format has an unknown directive '%${directive}'`);
    }
  };
  return format.replace(/%(-?)([\s\S]|$)/g, (_, minus: string, directive: string) => {
    const text = write(directive);
    return minus === '' ? text : text.replace(/^[0 ]+(?=.)/, '');
  });
}

/** ISO 8601 text, as people and machines write it. */
export function parseIso(text: string): DateTimeValue | undefined {
  const match = ISO.exec(text.trim());
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second, fraction, zone] = match;
  if (zone !== undefined && hour === undefined) return undefined;
  return dateTime({
    year: Number(year),
    month: Number(month),
    day: Number(day),
    hour: Number(hour ?? 0),
    minute: Number(minute ?? 0),
    second: Number(second ?? 0),
    microsecond: microseconds(fraction),
    offset: zone === undefined ? undefined : zoneOffset(zone),
  });
}

function microseconds(fraction: string | undefined): number {
  return fraction === undefined ? 0 : Number(fraction.padEnd(6, '0').slice(0, 6));
}

function zoneOffset(zone: string): number {
  if (zone === 'Z' || zone === 'z') return 0;
  const digits = zone.replace(/[^\d]/g, '');
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2, 4) || 0);
  return zone.startsWith('-') ? -minutes : minutes;
}

/** Text read by a Python format. Undefined if it does not fit. */
export function strptime(text: string, format: string): DateTimeValue | undefined {
  const found: { -readonly [K in keyof DateTimeFields]: DateTimeFields[K] } = {
    year: 1900,
    month: 1,
    day: 1,
    hour: 0,
    minute: 0,
    second: 0,
    microsecond: 0,
    offset: undefined,
  };
  let epoch: DateTimeValue | undefined;
  let afternoon: boolean | undefined;
  let position = 0;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = position;
    const match = pattern.exec(text)?.[0];
    if (match !== undefined) position += match.length;
    return match;
  };
  const name = (names: readonly string[], short: boolean): number | undefined => {
    const lower = text.slice(position).toLowerCase();
    const index = names.findIndex((full) => lower.startsWith((short ? full.slice(0, 3) : full).toLowerCase()));
    if (index === -1) return undefined;
    position += short ? 3 : names[index]!.length;
    return index;
  };
  const read = (directive: string): boolean => {
    switch (directive) {
      case 'Y':
        return store('year', take(/\d{4}/y));
      case 'm':
        return store('month', take(/1[0-2]|0?[1-9]/y));
      case 'd':
      case 'e':
        return store('day', take(/ ?(?:3[01]|[12]\d|0?[1-9])/y));
      case 'H':
        return store('hour', take(/2[0-3]|[01]?\d/y));
      case 'I':
        return store('hour', take(/1[0-2]|0?[1-9]/y));
      case 'M':
        return store('minute', take(/[0-5]?\d/y));
      case 'S':
        return store('second', take(/[0-5]?\d/y));
      case 'y': {
        const short = take(/\d{2}/y);
        return store('year', short && String(Number(short) + (Number(short) < 69 ? 2000 : 1900)));
      }
      case 'f': {
        const digits = take(/\d{1,6}/y);
        return store('microsecond', digits && String(microseconds(digits)));
      }
      case 'z': {
        const zone = take(/Z|[+-]\d{2}:?\d{2}/y);
        if (zone !== undefined) found.offset = zoneOffset(zone);
        return zone !== undefined;
      }
      case 'Z': {
        const zone = take(/UTC|GMT|Z/y);
        if (zone !== undefined) found.offset = 0;
        return zone !== undefined;
      }
      case 'p': {
        const half = take(/[AaPp][Mm]/y);
        afternoon = half === undefined ? undefined : half.toLowerCase() === 'pm';
        return half !== undefined;
      }
      case 'b':
      case 'B': {
        const month = name(MONTHS, directive === 'b');
        found.month = (month ?? 0) + 1;
        return month !== undefined;
      }
      case 'a':
      case 'A':
        return name(DAYS, directive === 'a') !== undefined;
      case 's':
        epoch = dateTimeFromEpoch(Number(take(/\d{1,12}/y) ?? Number.NaN));
        return epoch !== undefined;
      case 'F':
        return [...'Y-m-d'].every((part) => (part === '-' ? take(/-/y) !== undefined : read(part)));
      case 'T':
        return [...'H:M:S'].every((part) => (part === ':' ? take(/:/y) !== undefined : read(part)));
      case '%':
        return take(/%/y) !== undefined;
      default:
        throw typeError(`the time format has an unknown directive '%${directive}'`);
    }
  };
  const store = (field: 'year' | 'month' | 'day' | 'hour' | 'minute' | 'second' | 'microsecond', digits?: string) => {
    if (digits !== undefined) found[field] = Number(digits);
    return digits !== undefined;
  };
  for (let i = 0; i < format.length; i++) {
    const char = format[i]!;
    if (char === '%') {
      if (!read(format[++i] ?? '')) return undefined;
    } else if (/\s/.test(char)) {
      take(/\s*/y);
    } else if (text[position++] !== char) {
      return undefined;
    }
  }
  if (position !== text.length) return undefined;
  if (epoch !== undefined) return epoch;
  if (afternoon !== undefined) found.hour = (found.hour % 12) + (afternoon ? 12 : 0);
  return dateTime(found);
}
