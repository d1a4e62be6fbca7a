import { isDoubt } from './append-events.ts';
import type { CommitAnswer, Execute, PreparedCommit } from './commit-work.ts';
import { quoteOrNull } from './encode-batch.ts';
import { encodeEvents, eventParameters } from './encode-events.ts';
import type { PlainCall, StepProbe } from './plain-call.ts';
import type { Statement } from './postgres.ts';

/** A call that ends one unit and hands its row to the next one, or ends its run, and asks for nothing special. */
export interface HandOver {
  readonly call: PreparedCommit;
  readonly plain: PlainCall;
  readonly unit: string;
  readonly fence: number;
  /** Undefined: the run ends with it. */
  readonly next: string | undefined;
}

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

/** A lone one: most of the cost of a small call does not depend on how much there is to store. */
export async function handOverOne(execute: Execute, given: HandOver): Promise<CommitAnswer[] | 'doubt'> {
  const { call, next } = given;
  let row: HandOverRow | undefined;
  try {
    [row] = await execute<HandOverRow>(HAND_OVER_ONE, parameters(given));
  } catch (error) {
    if (isDoubt(error)) return 'doubt';
    throw error;
  }
  const { last_seq, us, fence } = row!;
  const n = call.events.length;
  const leases = next === undefined ? [] : [{ unit: next, fence: Number(fence) }];
  return [{ ...allNew(n, Number(last_seq) - n, Number(us)), leases, handouts: [] }];
}

/** The answer to a call whose events are all stored for the first time, at one moment, behind so many others. */
export function allNew(n: number, before: number, us: number): Extract<CommitAnswer, { ok: true }> {
  const seqs: number[] = [];
  for (let i = 1; i <= n; i++) seqs.push(before + i);
  return { ok: true, seqs, micros: new Array<number>(n).fill(us), fresh: new Array<boolean>(n).fill(true) };
}

function parameters({ call, plain, unit, fence, next }: HandOver): unknown[] {
  return [
    call.runKey,
    call.expectedHead,
    plain.statuses,
    plain.status,
    plain.decided,
    ...probeColumns(plain.probes),
    call.owner,
    call.leaseMs,
    unit,
    fence,
    next ?? null,
    ...encodeEvents(call.events),
  ];
}

/** Type, path, attempt, and whether the fact must be stored. */
export function probeColumns(probes: readonly StepProbe[]): string[] {
  const list = (cell: (probe: StepProbe) => string | number): string => `{${probes.map(cell).join(',')}}`;
  return [
    list(({ type }) => type),
    list(({ path }) => quoteOrNull(path)),
    list(({ attempt }) => attempt),
    list(({ isStored }) => (isStored ? 't' : 'f')),
  ];
}
