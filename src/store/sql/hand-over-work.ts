import type { Lease } from '../work.ts';
import { ANSWER_COLUMNS, type AppendRow, isDoubt, readAnswers } from './append-events.ts';
import type { CommitAnswer, Execute, PreparedCommit } from './commit-work.ts';
import { encodeCalls, quoteOrNull } from './encode-batch.ts';
import { handOverOne } from './hand-over-one.ts';
import type { Statement } from './postgres.ts';

const HAND_OVER: Statement = {
  name: 'hand_over_work',
  text: `select ${ANSWER_COLUMNS}, array_to_string(places, ',') as places, array_to_string(fences, ',') as fences
    from runledger.hand_over_work($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::text[], $6::integer[], $7::smallint[],
      $8::bigint[], $9::smallint[], $10::text[], $11::integer[], $12::integer[], $13::text[], $14::integer[], $15::integer[],
      $16::integer[], $17::integer[], $18::integer[], $19::bytea, $20::text, $21::integer,
      $22::bigint[], $23::text[], $24::bigint[], $25::text[], $26::bigint[], $27::text[], $28::bigint[])`,
};

interface HandOverRow extends AppendRow {
  readonly places: string | null;
  readonly fences: string | null;
}

export interface HandOver {
  readonly unit: string;
  readonly fence: number;
  /** Undefined: the run ends with it. */
  readonly next: string | undefined;
}

/**
 * Commits calls that all end one unit and hand its row to the next one, or end their run: the usual batch, and the cheapest.
 * `calls` are sorted by run. `other`: the batch is none of that kind. `doubt`: something was stored before or is refused, and nothing has happened.
 */
export async function handOverWork(
  execute: Execute,
  calls: readonly PreparedCommit[],
): Promise<CommitAnswer[] | 'other' | 'doubt'> {
  const [first] = calls;
  const ends: HandOver[] = [];
  for (const call of calls) {
    const end = asHandOver(call);
    if (!end || call.owner !== first!.owner || call.leaseMs !== first!.leaseMs) return 'other';
    ends.push(end);
  }
  if (calls.length === 1) return handOverOne(execute, first!, ends[0]!);
  const moved = calls.flatMap((_, i) => (ends[i]!.next === undefined ? [] : [i]));
  const ended = calls.flatMap((_, i) => (ends[i]!.next === undefined ? [i] : []));
  const list = (at: readonly number[], cell: (i: number) => string | number): string => `{${at.map(cell).join(',')}}`;
  let row: HandOverRow | undefined;
  try {
    [row] = await execute<HandOverRow>(HAND_OVER, [
      ...encodeCalls(calls),
      first!.owner,
      first!.leaseMs,
      list(moved, (i) => calls[i]!.runKey),
      list(moved, (i) => quoteOrNull(ends[i]!.unit)),
      list(moved, (i) => ends[i]!.fence),
      list(moved, (i) => quoteOrNull(ends[i]!.next)),
      list(ended, (i) => calls[i]!.runKey),
      list(ended, (i) => quoteOrNull(ends[i]!.unit)),
      list(ended, (i) => ends[i]!.fence),
    ]);
  } catch (error) {
    if (isDoubt(error)) return 'doubt';
    throw error;
  }
  const leases = new Map<number, Lease>();
  const fences = row!.fences?.split(',') ?? [];
  for (const [at, place] of (row!.places ? row!.places.split(',') : []).entries()) {
    const i = moved[Number(place) - 1]!;
    leases.set(i, { unit: ends[i]!.next!, fence: Number(fences[at]) });
  }
  return readAnswers(calls, row!).map((answer, i) => {
    const lease = leases.get(i);
    return { ...answer, leases: lease ? [lease] : [], handouts: [] };
  });
}

/** What the call does to its row, if that is all it does beside its events. */
function asHandOver({ work, loops, receipts, owner, expectedHead }: PreparedCommit): HandOver | undefined {
  const [own, then, more] = work;
  if (owner === undefined || expectedHead === undefined || loops.length > 0 || receipts.length > 0) return undefined;
  if (own?.op !== 'delete' || own.fence === undefined || more) return undefined;
  const { unit, fence } = own;
  if (then?.op === 'clear') return { unit, fence, next: undefined };
  if (then?.op !== 'insert' || !then.lease || then.held || then.dueAt !== undefined || then.taken !== undefined) {
    return undefined;
  }
  return { unit, fence, next: then.unit };
}
