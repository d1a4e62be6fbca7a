import type { Lease } from '../work.ts';
import { isDoubt } from './append-events.ts';
import type { CommitAnswer, Execute, PreparedCommit } from './commit-work.ts';
import { quoteOrNull } from './encode-batch.ts';
import { encodeEvents, eventParameters } from './encode-events.ts';
import { allNew } from './hand-over-one.ts';
import { type PlainCall, plainCall } from './plain-call.ts';
import type { Statement } from './postgres.ts';

const END_ITERATIONS: Statement = {
  name: 'end_iterations',
  text: `select last_seq::text as last_seq, us::text as us, handouts
    from runledger.end_iterations($1::bigint, $2::integer, $3::integer, $4::text, $5::text, $6::integer, $7::text[], $8::bigint[],
      ${eventParameters(8)})`,
};

interface EndRow {
  readonly last_seq: string;
  readonly us: string;
  readonly handouts: string[];
}

interface Iteration {
  readonly unit: string;
  readonly fence: number;
  readonly loop: string;
}

/**
 * Commits calls that all end an iteration of one loop. `other`: the batch is none of that kind. `doubt`: something was stored before
 * or is refused, and nothing has happened.
 */
export async function endIterations(
  execute: Execute,
  calls: readonly PreparedCommit[],
): Promise<CommitAnswer[] | 'other' | 'doubt'> {
  const first = calls[0]!;
  const ends: Iteration[] = [];
  for (const call of calls) {
    const end = asIteration(call);
    if (!end || end.loop !== (ends[0] ?? end).loop) return 'other';
    if (call.runKey !== first.runKey || call.owner !== first.owner || call.leaseMs !== first.leaseMs) return 'other';
    ends.push(end);
  }
  const events = calls.flatMap((call) => call.events);
  const plain = plainCall(events);
  if (plain?.status !== 0 || plain.probes.length > 0) return 'other';
  try {
    const values = [...parameters(first, ends, plain), ...encodeEvents(events)];
    const [row] = await execute<EndRow>(END_ITERATIONS, values);
    return readAnswers(calls, row!, events.length);
  } catch (error) {
    if (isDoubt(error)) return 'doubt';
    throw error;
  }
}

function parameters(call: PreparedCommit, ends: readonly Iteration[], { statuses, decided }: PlainCall): unknown[] {
  return [
    call.runKey,
    statuses,
    decided,
    ends[0]!.loop,
    call.owner,
    call.leaseMs,
    `{${ends.map(({ unit }) => quoteOrNull(unit)).join(',')}}`,
    `{${ends.map(({ fence }) => fence).join(',')}}`,
  ];
}

function readAnswers(calls: readonly PreparedCommit[], row: EndRow, count: number): CommitAnswer[] {
  const leases = row.handouts.map((text): Lease => {
    const colon = text.indexOf(':');
    return { fence: Number(text.slice(0, colon)), unit: text.slice(colon + 1) };
  });
  let before = Number(row.last_seq) - count;
  return calls.map((call, i) => {
    const answer = allNew(call.events.length, before, Number(row.us));
    before += call.events.length;
    // Each of them goes on with one unit; what is left goes to the last.
    const handouts = i + 1 < calls.length ? leases.slice(i, i + 1) : leases.slice(i);
    return { ...answer, leases: [], handouts };
  });
}

/** The iteration that the call ends, if it does nothing else. */
function asIteration({ work, loops, receipts, owner, expectedHead }: PreparedCommit): Iteration | undefined {
  const [own, more] = work;
  const [ended, another] = loops;
  if (owner === undefined || expectedHead !== undefined || receipts.length > 0 || more || another) return undefined;
  if (own?.op !== 'delete' || own.fence === undefined || ended?.op !== 'ended' || ended.stop) return undefined;
  return { unit: own.unit, fence: own.fence, loop: ended.loop };
}
