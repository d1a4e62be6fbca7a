import type { PreparedEvent } from '../prepared-event.ts';
import { BinaryArray } from './binary-array.ts';
import type { PreparedCall } from './encode-batch.ts';
import { encodeEvents, eventParameters } from './encode-events.ts';
import type { Postgres, Statement } from './postgres.ts';

const APPEND_SINGLES: Statement = {
  name: 'append_singles',
  text: `
    select array_to_string(seqs, ',') as seqs, us::text as us
      from runledger.append_singles($1::bigint[], $2::integer[], ${eventParameters(2)})`,
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

function encodeSingles(calls: readonly PreparedCall[]): Buffer[] {
  const n = calls.length;
  const run = new BinaryArray('bigint', n, n * 8);
  const rule = new BinaryArray('integer', n, n * 4);
  const events: PreparedEvent[] = [];
  for (const call of calls) {
    const event = call.events[0] as PreparedEvent;
    run.bigint(call.runKey);
    rule.integer(event.rule);
    events.push(event);
  }
  return [run.done(), rule.done(), ...encodeEvents(events)];
}
