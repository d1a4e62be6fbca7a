import type { PreparedEvent } from '../prepared-event.ts';
import { BinaryArray } from './binary-array.ts';
import { type PreparedCall, uuidHex } from './encode-batch.ts';
import type { Postgres, Statement } from './postgres.ts';

const APPEND_SINGLES: Statement = {
  name: 'append_singles',
  text: `
    select array_to_string(seqs, ',') as seqs, us::text as us
      from runledger.append_singles($1::bigint[], $2::smallint[], $3::text[], $4::integer[], $5::integer[], $6::text[],
             $7::integer[], $8::uuid[], $9::bytea[], $10::bytea[], $11::bytea[], $12::text[])`,
};

/** Whether every call is about a run of its own, sorted by it, and adds one event that asks for nothing but its status. */
export function areSingles(calls: readonly PreparedCall[]): boolean {
  let last = 0;
  for (const { runKey, events, expectedHead } of calls) {
    if (runKey <= last || events.length !== 1 || expectedHead !== undefined || events[0]?.isStepFact) return false;
    last = runKey;
  }
  return true;
}

/** Stores the events or fails with a doubt: one was stored before, or is refused. */
export async function appendSingles(
  postgres: Postgres,
  calls: readonly PreparedCall[],
): Promise<{ seqs: number[]; us: number }> {
  const [row] = await postgres.query<{ seqs: string; us: string }>(APPEND_SINGLES, encodeSingles(calls), {
    contention: 'throw',
  });
  const { seqs, us } = row as { seqs: string; us: string };
  return { seqs: seqs.split(',').map(Number), us: Number(us) };
}

/** One pass over the events: a pass for every column would cost as much as the writing. */
function encodeSingles(calls: readonly PreparedCall[]): Buffer[] {
  const n = calls.length;
  // UTF-8 takes three bytes a character at the most. What is left over is not sent.
  let [pathRoom, emittedRoom, payloadRoom] = [0, 0, 0];
  let [engines, logicals] = [0, 0];
  for (const { events } of calls) {
    const { path, payload, event } = events[0] as PreparedEvent;
    pathRoom += path.length * 3;
    emittedRoom += event.emittedAt.length;
    if (payload !== null) payloadRoom += payload.length * 3;
    if (event.engineAttemptId !== 1) engines = n;
    if (event.logicalAttemptId !== 1) logicals = n;
  }
  const run = new BinaryArray('bigint', n, n * 8);
  const type = new BinaryArray('smallint', n, n * 2);
  const place = new BinaryArray('text', n, pathRoom);
  // A column in which every item has the default is not sent.
  const engine = new BinaryArray('integer', engines, engines * 4);
  const logical = new BinaryArray('integer', logicals, logicals * 4);
  const emitted = new BinaryArray('text', n, emittedRoom);
  const rules = new BinaryArray('integer', n, n * 4);
  const id = new BinaryArray('uuid', n, n * 16);
  const key = new BinaryArray('bytea', n, n * 32);
  const salts = new BinaryArray('bytea', n, n * 16);
  const record = new BinaryArray('bytea', n, n * 32);
  const payloads = new BinaryArray('text', n, payloadRoom);
  for (const { runKey, events } of calls) {
    const { event, code, path, payload, salt, recordHash, rule } = events[0] as PreparedEvent;
    run.bigint(runKey);
    type.smallint(code);
    place.text(path);
    if (engines > 0) engine.integer(event.engineAttemptId);
    if (logicals > 0) logical.integer(event.logicalAttemptId);
    emitted.text(event.emittedAt, 'latin1');
    rules.integer(rule);
    id.text(uuidHex(event.eventId), 'hex');
    key.text(event.idempotencyKey, 'hex');
    salts.text(salt, 'latin1');
    record.text(recordHash, 'hex');
    payloads.text(payload);
  }
  return [run, type, place, engine, logical, emitted, rules, id, key, salts, record, payloads].map((a) => a.done());
}
