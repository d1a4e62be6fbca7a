import type { PreparedEvent } from '../prepared-event.ts';
import { BinaryArray } from './binary-array.ts';
import { uuidHex } from './encode-batch.ts';

const TYPES = [
  'smallint[]',
  'text[]',
  'integer[]',
  'integer[]',
  'text[]',
  'uuid[]',
  'bytea[]',
  'bytea[]',
  'bytea[]',
  'text[]',
] as const;

/** The parameters that `encodeEvents` makes, where so many others come before them. */
export const eventParameters = (before: number): string =>
  TYPES.map((type, i) => `$${before + i + 1}::${type}`).join(', ');

/**
 * Events as arrays: type, path, attempt of the engine, logical attempt, time, id, key, salt, record hash, payload. One pass over
 * the events, since a pass for every column would cost as much as the writing.
 */
export function encodeEvents(events: readonly PreparedEvent[]): Buffer[] {
  const n = events.length;
  // UTF-8 takes three bytes a character at the most. What is left over is not sent.
  let [pathRoom, emittedRoom, payloadRoom] = [0, 0, 0];
  let [engines, logicals] = [0, 0];
  for (const { path, payload, event } of events) {
    pathRoom += path.length * 3;
    emittedRoom += event.emittedAt.length;
    if (payload !== null) payloadRoom += payload.length * 3;
    if (event.engineAttemptId !== 1) engines = n;
    if (event.logicalAttemptId !== 1) logicals = n;
  }
  const type = new BinaryArray('smallint', n, n * 2);
  const place = new BinaryArray('text', n, pathRoom);
  // A column in which every item has the default is not sent.
  const engine = new BinaryArray('integer', engines, engines * 4);
  const logical = new BinaryArray('integer', logicals, logicals * 4);
  const emitted = new BinaryArray('text', n, emittedRoom);
  const id = new BinaryArray('uuid', n, n * 16);
  const key = new BinaryArray('bytea', n, n * 32);
  const salts = new BinaryArray('bytea', n, n * 16);
  const record = new BinaryArray('bytea', n, n * 32);
  const payloads = new BinaryArray('text', n, payloadRoom);
  for (const { event, code, path, payload, salt, recordHash } of events) {
    type.smallint(code);
    place.text(path);
    if (engines > 0) engine.integer(event.engineAttemptId);
    if (logicals > 0) logical.integer(event.logicalAttemptId);
    emitted.text(event.emittedAt, 'latin1');
    id.text(uuidHex(event.eventId), 'hex');
    key.text(event.idempotencyKey, 'hex');
    salts.text(salt, 'latin1');
    record.text(recordHash, 'hex');
    payloads.text(payload);
  }
  return [type, place, engine, logical, emitted, id, key, salts, record, payloads].map((column) => column.done());
}
