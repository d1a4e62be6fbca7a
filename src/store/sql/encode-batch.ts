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

/** Which events of a batch belong together: those of one step attempt, and those with the same key. */
interface Relations {
  readonly events: PreparedEvent[];
  /** Per event the number of its step attempt, from 1 on; 0 where it is no fact of the step machine. */
  readonly slots: number[];
  /** Per event the number of the last one before it with the same key; 0 where there is none. */
  readonly priors: number[];
  readonly slotRuns: number[];
  readonly slotPaths: string[];
  readonly slotAttempts: number[];
}

export function relate(calls: readonly Pick<PreparedCall, 'runKey' | 'events'>[]): Relations {
  const out: Relations = { events: [], slots: [], priors: [], slotRuns: [], slotPaths: [], slotAttempts: [] };
  const seen = new Map<string, number>();
  const slotOf = new Map<string, number>();
  for (const call of calls) {
    for (const prepared of call.events) {
      out.events.push(prepared);
      // The key names the run, so that one map serves all runs of the batch.
      const key = prepared.event.idempotencyKey;
      const prior = seen.get(key);
      seen.set(key, out.events.length);
      out.priors.push(prior ?? 0);
      out.slots.push(prepared.isStepFact ? slotFor(call.runKey, prepared, slotOf, out) : 0);
    }
  }
  return out;
}

function slotFor(runKey: number, prepared: PreparedEvent, slotOf: Map<string, number>, out: Relations): number {
  const attempt = prepared.event.logicalAttemptId;
  const place = `${runKey}|${prepared.path}|${attempt}`;
  const known = slotOf.get(place);
  if (known !== undefined) return known;
  const slot = out.slotRuns.push(runKey);
  slotOf.set(place, slot);
  out.slotPaths.push(quote(prepared.path));
  out.slotAttempts.push(attempt);
  return slot;
}

const FIXED_BYTES = 96;

/** The parameters that describe events, in the order of append_core from `e_type` on. */
export function eventColumns({ events, slots, priors }: Pick<Relations, 'events' | 'slots' | 'priors'>): unknown[] {
  const n = events.length;
  const types: number[] = new Array(n);
  const paths: string[] = new Array(n);
  const engines: number[] = new Array(n);
  const logicals: number[] = new Array(n);
  const emitted: string[] = new Array(n);
  const starts: number[] = new Array(n);
  const lengths: number[] = new Array(n);
  const rules: number[] = new Array(n);
  let end = n * FIXED_BYTES;
  for (let i = 0; i < n; i++) {
    const { payload } = events[i] as PreparedEvent;
    const length = payload === null ? -1 : Buffer.byteLength(payload);
    starts[i] = end + 1;
    lengths[i] = length;
    if (length > 0) end += length;
  }
  const bytes = Buffer.allocUnsafe(end);
  for (let i = 0; i < n; i++) {
    const prepared = events[i] as PreparedEvent;
    const event = prepared.event;
    types[i] = prepared.code;
    paths[i] = quote(prepared.path);
    engines[i] = event.engineAttemptId;
    logicals[i] = event.logicalAttemptId;
    emitted[i] = event.emittedAt;
    rules[i] = prepared.rule;
    writeFixed(bytes, i * FIXED_BYTES, prepared);
    if (prepared.payload !== null) bytes.write(prepared.payload, (starts[i] as number) - 1, 'utf8');
  }
  return [
    array(types),
    array(paths),
    arrayUnless(engines, 1),
    arrayUnless(logicals, 1),
    array(emitted),
    array(starts),
    array(lengths),
    array(rules),
    arrayUnless(slots, 0),
    arrayUnless(priors, 0),
    bytes,
  ];
}

function writeFixed(bytes: Buffer, at: number, { event, salt, recordHash }: PreparedEvent): void {
  bytes.write(uuidHex(event.eventId), at, 16, 'hex');
  bytes.write(event.idempotencyKey, at + 16, 32, 'hex');
  bytes.write(salt, at + 48, 16, 'latin1');
  bytes.write(recordHash, at + 64, 32, 'hex');
}

export function uuidHex(id: string): string {
  return id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18) + id.slice(19, 23) + id.slice(24);
}

/** The parameters of append_one. */
export function encodeOne({ runKey, events, expectedHead }: PreparedCall): unknown[] {
  const prepared = events[0] as PreparedEvent;
  const { event, code, path, payload, rule } = prepared;
  const bytes = Buffer.allocUnsafe(FIXED_BYTES);
  writeFixed(bytes, 0, prepared);
  const { engineAttemptId, logicalAttemptId, emittedAt } = event;
  const head = expectedHead ?? null;
  return [
    runKey,
    code,
    path,
    engineAttemptId,
    logicalAttemptId,
    emittedAt,
    payload,
    rule,
    STEP_TYPE_CODES,
    head,
    bytes,
  ];
}

/** All parameters of append_core for a batch of calls, which must be sorted by run. */
export function encodeCalls(calls: readonly PreparedCall[]): unknown[] {
  const related = relate(calls);
  const heads = calls.some((call) => call.expectedHead !== undefined);
  return [
    array(calls.map((call) => call.runKey)),
    array(calls.map((call) => call.events.length)),
    heads ? array(calls.map((call) => call.expectedHead ?? 'NULL')) : EMPTY,
    array(related.slotRuns),
    array(related.slotPaths),
    array(related.slotAttempts),
    STEP_TYPE_CODES,
    array(calls.flatMap((call) => call.events.map(() => call.runKey))),
    ...eventColumns(related),
  ];
}

const array = (items: readonly (string | number)[]): string => `{${items.join(',')}}`;

/** A column in which every item has the default is not sent: the database parses each element. */
const arrayUnless = (items: readonly number[], standard: number): string =>
  items.every((item) => item === standard) ? EMPTY : array(items);

/** An element of a Postgres text array. */
function quote(text: string): string {
  return /["\\]/.test(text) ? `"${text.replace(/["\\]/g, '\\$&')}"` : `"${text}"`;
}

export function quoteOrNull(text: string | null | undefined): string {
  return text === null || text === undefined ? 'NULL' : quote(text);
}
