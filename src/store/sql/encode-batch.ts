import { CATALOGUE } from '../../contracts/catalogue.ts';
import { type PreparedEvent, STEP_FACTS } from '../prepared-event.ts';

/** Events of one run that are stored together or not at all. */
export interface PreparedCall {
  readonly runKey: number;
  readonly events: readonly PreparedEvent[];
  /** The head on which a decision was made; refused when it moved. */
  readonly expectedHead?: number | undefined;
}

const STEP_TYPE_CODES = `{${STEP_FACTS.map((type) => CATALOGUE[type].code).join(',')}}`;
const EMPTY = '{}';

/** The parameters that describe events, in the order of append_core from `e_type` on. */
export function eventColumns(events: readonly PreparedEvent[], slots: readonly number[], priors: readonly number[]): unknown[] {
  const bytes = Buffer.allocUnsafe(events.length * 96);
  let types = '{';
  let paths = '{';
  let engines = '{';
  let logicals = '{';
  let emitted = '{';
  let payloads = '{';
  let rules = '{';
  for (let i = 0; i < events.length; i++) {
    const prepared = events[i] as PreparedEvent;
    const event = prepared.event;
    const comma = i === 0 ? '' : ',';
    types += comma + prepared.code;
    paths += comma + quote(prepared.path);
    engines += comma + event.engineAttemptId;
    logicals += comma + event.logicalAttemptId;
    emitted += comma + quote(event.emittedAt);
    payloads += comma + (prepared.payload === null ? 'NULL' : quote(prepared.payload));
    rules += comma + prepared.rule;
    const at = i * 96;
    bytes.write(event.eventId.replaceAll('-', ''), at, 16, 'hex');
    bytes.write(event.idempotencyKey, at + 16, 32, 'hex');
    prepared.salt.copy(bytes, at + 48);
    bytes.write(prepared.recordHash, at + 64, 32, 'hex');
  }
  return [
    `${types}}`, `${paths}}`, `${engines}}`, `${logicals}}`, `${emitted}}`, `${payloads}}`, `${rules}}`,
    `{${slots.join(',')}}`, `{${priors.join(',')}}`, bytes,
  ];
}

/** All parameters of append_core for a batch of calls. */
export function encodeCalls(calls: readonly PreparedCall[]): unknown[] {
  const events: PreparedEvent[] = [];
  const slots: number[] = [];
  const priors: number[] = [];
  const counts: number[] = [];
  const seen = new Map<string, number>();
  const slotOf = new Map<string, number>();
  const slotRuns: number[] = [];
  const slotPaths: string[] = [];
  const slotAttempts: number[] = [];
  const single = calls.length === 1 && calls[0]?.events.length === 1;
  for (const call of calls) {
    counts.push(call.events.length);
    for (const prepared of call.events) {
      events.push(prepared);
      // The key names the run, so that one map serves all runs of the batch.
      const key = prepared.event.idempotencyKey;
      priors.push(single ? 0 : (seen.get(key) ?? 0));
      if (!single && !seen.has(key)) seen.set(key, events.length);
      if (!prepared.isStepFact) {
        slots.push(0);
        continue;
      }
      const place = `${call.runKey}|${prepared.path}|${prepared.event.logicalAttemptId}`;
      let slot = slotOf.get(place);
      if (slot === undefined) {
        slotOf.set(place, (slot = slotRuns.push(call.runKey)));
        slotPaths.push(quote(prepared.path));
        slotAttempts.push(prepared.event.logicalAttemptId);
      }
      slots.push(slot);
    }
  }
  const heads = calls.some((call) => call.expectedHead !== undefined);
  return [
    `{${calls.map((call) => call.runKey).join(',')}}`,
    `{${counts.join(',')}}`,
    heads ? `{${calls.map((call) => call.expectedHead ?? 'NULL').join(',')}}` : EMPTY,
    `{${slotRuns.join(',')}}`,
    `{${slotPaths.join(',')}}`,
    `{${slotAttempts.join(',')}}`,
    STEP_TYPE_CODES,
    ...eventColumns(events, slots, priors),
  ];
}

/** An element of a Postgres text array. */
export function quote(text: string): string {
  return /["\\]/.test(text) ? `"${text.replace(/["\\]/g, '\\$&')}"` : `"${text}"`;
}

export function quoteOrNull(text: string | null | undefined): string {
  return text === null || text === undefined ? 'NULL' : quote(text);
}
