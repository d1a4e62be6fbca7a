import type { Evaluation } from './evaluation.ts';
import { Special } from './special.ts';

export interface DateTimeFields {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
  readonly microsecond: number;
  /** Minutes east of UTC; undefined if the text named no zone, which counts as UTC. */
  readonly offset: number | undefined;
}

/**
 * A moment that a template named explicitly; there is no "now". Calendar arithmetic is done here and not by `Date`, whose
 * constructor is a clock and is replaced in workflow sandboxes. Leaves a template as ISO 8601 text.
 */
export class DateTimeValue extends Special {
  override readonly description = 'a date and time';
  readonly fields: DateTimeFields;

  constructor(fields: DateTimeFields) {
    super();
    this.fields = fields;
  }

  override attribute(_evaluation: Evaluation, name: string): unknown {
    switch (name) {
      case 'year':
      case 'month':
      case 'day':
      case 'hour':
      case 'minute':
      case 'second':
      case 'microsecond':
        return this.fields[name];
      default:
        return undefined;
    }
  }

  override toResult(): string {
    return this.isoFormat();
  }

  isoFormat(): string {
    const { year, month, day, hour, minute, second, microsecond, offset } = this.fields;
    const fraction = microsecond === 0 ? '' : `.${pad(microsecond, 6)}`;
    const zone = offset === undefined ? '' : zoneText(offset, ':');
    return `${pad(year, 4)}-${pad(month)}-${pad(day)}T${pad(hour)}:${pad(minute)}:${pad(second)}${fraction}${zone}`;
  }

  /** Whole seconds since 1970 in UTC; the fraction is in `fields.microsecond`. */
  epochSeconds(): number {
    const { year, month, day, hour, minute, second, offset } = this.fields;
    return ((daysFromCivil(year, month, day) * 24 + hour) * 60 + minute - (offset ?? 0)) * 60 + second;
  }

  timestamp(): number {
    return this.epochSeconds() + this.fields.microsecond / 1e6;
  }

  compareTo(other: DateTimeValue): number {
    return this.epochSeconds() - other.epochSeconds() || this.fields.microsecond - other.fields.microsecond;
  }

  /** Monday is 0. */
  weekday(): number {
    const { year, month, day } = this.fields;
    return (((daysFromCivil(year, month, day) + 3) % 7) + 7) % 7;
  }

  dayOfYear(): number {
    const { year, month, day } = this.fields;
    return daysFromCivil(year, month, day) - daysFromCivil(year, 1, 1) + 1;
  }
}

export function pad(value: number, width = 2): string {
  return String(value).padStart(width, '0');
}

export function zoneText(offset: number, separator: string): string {
  const minutes = Math.abs(offset);
  return `${offset < 0 ? '-' : '+'}${pad(Math.floor(minutes / 60))}${separator}${pad(minutes % 60)}`;
}

/** The moment, or undefined if the fields name none, such as 30 February. */
export function dateTime(fields: DateTimeFields): DateTimeValue | undefined {
  const { year, month, day, hour, minute, second, offset } = fields;
  const inRange =
    year >= 1 &&
    year <= 9999 &&
    month >= 1 &&
    month <= 12 &&
    day >= 1 &&
    day <= daysInMonth(year, month) &&
    hour <= 23 &&
    minute <= 59 &&
    second <= 59 &&
    Math.abs(offset ?? 0) < 24 * 60;
  return inRange ? new DateTimeValue(fields) : undefined;
}

/** A moment from seconds since 1970, in UTC. */
export function dateTimeFromEpoch(seconds: number): DateTimeValue | undefined {
  // Split first: seconds * 1e6 would lose digits beyond 2^53.
  let whole = Math.floor(seconds);
  let microsecond = Math.round((seconds - whole) * 1e6);
  if (microsecond === 1e6) {
    whole += 1;
    microsecond = 0;
  }
  const days = Math.floor(whole / 86_400);
  const rest = whole - days * 86_400;
  if (!Number.isSafeInteger(days) || Math.abs(days) > 3_700_000) return undefined;
  const { year, month, day } = civilFromDays(days);
  const hour = Math.floor(rest / 3600);
  const minute = Math.floor((rest % 3600) / 60);
  return dateTime({ year, month, day, hour, minute, second: rest % 60, microsecond, offset: 0 });
}

function daysInMonth(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/** Days since 1970-01-01 in the Gregorian calendar. Years are counted from March, so that the leap day comes last. */
function daysFromCivil(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

function civilFromDays(days: number): { year: number; month: number; day: number } {
  const z = days + 719_468;
  const era = Math.floor(z / 146_097);
  const dayOfEra = z - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shifted = Math.floor((5 * dayOfYear + 2) / 153);
  const month = shifted < 10 ? shifted + 3 : shifted - 9;
  return {
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    day: dayOfYear - Math.floor((153 * shifted + 2) / 5) + 1,
  };
}
