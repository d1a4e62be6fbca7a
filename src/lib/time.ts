/** Store times are microseconds since 1970; a JS Date would cut them to milliseconds. */
export function microsToText(micros: number): string {
  // Events of one commit share their time.
  if (micros === lastMicros) return lastText;
  const millis = Math.floor(micros / 1000);
  const rest = micros - millis * 1000;
  lastText = `${new Date(millis).toISOString().slice(0, -1)}${String(rest).padStart(3, '0')}Z`;
  lastMicros = micros;
  return lastText;
}

let lastMicros = Number.NaN;
let lastText = '';

/** The inverse of microsToText; takes any RFC 3339 UTC time with up to nine digits and cuts below the microsecond. */
export function textToMicros(text: string): number {
  const match = /^(.{19})(?:\.(\d{1,9}))?(?:Z|\+00:00)$/.exec(text);
  const millis = match ? Date.parse(`${match[1]}Z`) : Number.NaN;
  if (!match || Number.isNaN(millis)) throw new RangeError(`'${text}' is not a UTC time`);
  return millis * 1000 + Number((match[2] ?? '').padEnd(6, '0').slice(0, 6));
}
