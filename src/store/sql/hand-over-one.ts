import { isDoubt } from './append-events.ts';
import type { CommitAnswer, Execute, PreparedCommit } from './commit-work.ts';
import { quoteOrNull } from './encode-batch.ts';
import { encodeEvents, eventParameters } from './encode-events.ts';
import type { HandOver } from './hand-over-work.ts';
import { type PlainCall, plainCall } from './plain-call.ts';
import type { Statement } from './postgres.ts';

const HAND_OVER_ONE: Statement = {
  name: 'hand_over_one',
  text: `select last_seq::text as last_seq, us::text as us, new_fence::text as fence
    from runledger.hand_over_one($1::bigint, $2::bigint, $3::integer, $4::integer, $5::integer, $6::smallint[], $7::text[],
      $8::integer[], $9::boolean[], $10::text, $11::integer, $12::text, $13::bigint, $14::text, ${eventParameters(14)})`,
};

interface HandOverRow {
  readonly last_seq: string;
  readonly us: string;
  readonly fence: string;
}

/** The same as handOverWork for a lone call, most of whose cost does not depend on how much there is to store. */
export async function handOverOne(
  execute: Execute,
  call: PreparedCommit,
  end: HandOver,
): Promise<CommitAnswer[] | 'other' | 'doubt'> {
  const plain = plainCall(call.events);
  if (!plain) return 'other';
  let row: HandOverRow | undefined;
  try {
    [row] = await execute<HandOverRow>(HAND_OVER_ONE, parameters(call, end, plain));
  } catch (error) {
    if (isDoubt(error)) return 'doubt';
    throw error;
  }
  const n = call.events.length;
  const before = Number(row!.last_seq) - n;
  const leases = end.next === undefined ? [] : [{ unit: end.next, fence: Number(row!.fence) }];
  return [{ ...allNew(n, before, Number(row!.us)), leases, handouts: [] }];
}

/** The answer to a call whose events are all stored for the first time, at one moment, behind so many others. */
export function allNew(n: number, before: number, us: number): Extract<CommitAnswer, { ok: true }> {
  const seqs: number[] = [];
  for (let i = 1; i <= n; i++) seqs.push(before + i);
  return { ok: true, seqs, micros: new Array<number>(n).fill(us), fresh: new Array<boolean>(n).fill(true) };
}

function parameters(call: PreparedCommit, end: HandOver, { statuses, status, decided, probes }: PlainCall): unknown[] {
  const list = (cell: (probe: (typeof probes)[number]) => string | number): string => `{${probes.map(cell).join(',')}}`;
  return [
    call.runKey,
    call.expectedHead,
    statuses,
    status,
    decided,
    list(({ type }) => type),
    list(({ path }) => quoteOrNull(path)),
    list(({ attempt }) => attempt),
    list(({ isStored }) => (isStored ? 't' : 'f')),
    call.owner,
    call.leaseMs,
    end.unit,
    end.fence,
    end.next ?? null,
    ...encodeEvents(call.events),
  ];
}
