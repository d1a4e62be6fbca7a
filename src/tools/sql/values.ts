/**
 * How SQL values become JSON, the same for every database: a number where a double holds it exactly, its text otherwise, so
 * that no digit is lost without a word; times as ISO text; bytes as base64.
 */

/** Digits that a double always keeps. */
const SAFE_DIGITS = 15;

export function integerValue(text: string): number | string {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : text;
}

/** `12.50` is 12.5: the scale of a column is in its type. More digits than a double keeps stay text, as do NaN and Infinity. */
export function decimalValue(text: string): number | string {
  const digits = text.replace(/^-/, '').replace('.', '').replace(/^0+/, '');
  if (!/^\d*$/.test(digits)) return text;
  const significant = text.includes('.') ? digits.replace(/0+$/, '') : digits;
  if (significant.length > SAFE_DIGITS) return text;
  return Number(text) + 0;
}

/** JSON has no NaN and no Infinity; they stay words. */
export function floatValue(text: string): number | string {
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

/** `2024-01-31 10:20:30.5` becomes `2024-01-31T10:20:30.5`; infinity and years before Christ stay as they are. */
export function timestampValue(text: string): string {
  return /^\d{4,6}-\d\d-\d\d \d\d:/.test(text) && !text.endsWith('BC') ? text.replace(' ', 'T') : text;
}

/** A time with a zone becomes UTC with a Z, to the microsecond. */
export function instantValue(text: string): string {
  const match = /^(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(\.\d+)?([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?$/.exec(text);
  if (!match) return text;
  const [, year, month, day, hour, minute, second, fraction = '', sign, zoneHour, zoneMinute = '0', zoneSecond = '0'] =
    match;
  const offset = (Number(zoneHour) * 3600 + Number(zoneMinute) * 60 + Number(zoneSecond)) * (sign === '-' ? -1 : 1);
  const local = new Date(0);
  // Date.UTC takes the years 0 to 99 for those of the last century.
  local.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  local.setUTCHours(Number(hour), Number(minute), Number(second));
  const utc = new Date(local.getTime() - offset * 1000);
  return `${utc.toISOString().slice(0, 19)}${fraction}Z`;
}
