import type { PreparedEvent } from '../prepared-event.ts';
import type { Lease } from '../work.ts';
import { isDoubt } from './append-events.ts';
import { BinaryArray } from './binary-array.ts';
import type { CommitAnswer, Execute, PreparedCommit } from './commit-work.ts';
import { quoteOrNull } from './encode-batch.ts';
import { encodeEvents, eventParameters } from './encode-events.ts';
import { allNew, type HandOver, handOverOne, probeColumns } from './hand-over-one.ts';
import { plainCall } from './plain-call.ts';
import type { Statement } from './postgres.ts';

const HAND_OVER: Statement = {
  name: 'hand_over_work',
  text: `select array_to_string(bases, ',') as bases, us::text as us, array_to_string(places, ',') as places,
      array_to_string(fences, ',') as fences
    from runledger.hand_over_work($1::bigint[], $2::bigint[], $3::integer[], $4::integer[], $5::integer[], $6::integer[],
      $7::bigint[], $8::smallint[], $9::text[], $10::integer[], $11::boolean[], $12::text, $13::integer,
      $14::bigint[], $15::text[], $16::bigint[], $17::text[], $18::bigint[], $19::text[], $20::bigint[], $21::bigint[], ${eventParameters(21)})`,
};

interface HandOverRow {
  readonly bases: string;
  readonly us: string;
  readonly places: string | null;
  readonly fences: string | null;
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
  const given: HandOver[] = [];
  for (const call of calls) {
    const isNext = call.runKey !== given.at(-1)?.call.runKey;
    const one = isNext && call.owner === first!.owner && call.leaseMs === first!.leaseMs ? asHandOver(call) : undefined;
    if (!one) return 'other';
    given.push(one);
  }
  if (given.length === 1) return handOverOne(execute, given[0]!);
  let row: HandOverRow | undefined;
  try {
    [row] = await execute<HandOverRow>(HAND_OVER, parameters(given, first!));
  } catch (error) {
    if (isDoubt(error)) return 'doubt';
    throw error;
  }
  return readAnswers(given, row!);
}

function parameters(given: readonly HandOver[], { owner, leaseMs }: PreparedCommit): unknown[] {
  const events: PreparedEvent[] = [];
  const count = given.reduce((sum, { call }) => sum + call.events.length, 0);
  const run = new BinaryArray('bigint', count, count * 8);
  for (const { call } of given) {
    for (const event of call.events) {
      run.bigint(call.runKey);
      events.push(event);
    }
  }
  const list = <T>(items: readonly T[], cell: (item: T) => string | number): string => `{${items.map(cell).join(',')}}`;
  const probed = given.flatMap(({ call, plain }) => plain.probes.map(() => call.runKey));
  const moved = given.filter(({ next }) => next !== undefined);
  const ended = given.filter(({ next }) => next === undefined);
  return [
    list(given, ({ call }) => call.runKey),
    list(given, ({ call }) => call.expectedHead!),
    list(given, ({ plain }) => plain.statuses),
    list(given, ({ plain }) => plain.status),
    list(given, ({ plain }) => plain.decided),
    list(given, ({ call }) => call.events.length),
    list(probed, (runKey) => runKey),
    ...probeColumns(given.flatMap(({ plain }) => plain.probes)),
    owner,
    leaseMs,
    list(moved, ({ call }) => call.runKey),
    list(moved, ({ unit }) => quoteOrNull(unit)),
    list(moved, ({ fence }) => fence),
    list(moved, ({ next }) => quoteOrNull(next)),
    list(ended, ({ call }) => call.runKey),
    list(ended, ({ unit }) => quoteOrNull(unit)),
    list(ended, ({ fence }) => fence),
    run.done(),
    ...encodeEvents(events),
  ];
}

function readAnswers(given: readonly HandOver[], row: HandOverRow): CommitAnswer[] {
  const moved = given.filter(({ next }) => next !== undefined);
  const leases = new Map<HandOver, Lease>();
  const fences = row.fences?.split(',') ?? [];
  for (const [at, place] of (row.places?.split(',') ?? []).entries()) {
    const one = moved[Number(place) - 1]!;
    leases.set(one, { unit: one.next!, fence: Number(fences[at]) });
  }
  const bases = row.bases.split(',');
  const us = Number(row.us);
  return given.map((one, i) => {
    const lease = leases.get(one);
    const answer = allNew(one.call.events.length, Number(bases[i]), us);
    return { ...answer, leases: lease ? [lease] : [], handouts: [] };
  });
}

/** What the call does to its row, if that is all it does beside its events. */
function asHandOver(call: PreparedCommit): HandOver | undefined {
  const { work, loops, receipts, owner, expectedHead } = call;
  const [own, then, more] = work;
  if (owner === undefined || expectedHead === undefined || loops.length > 0 || receipts.length > 0) return undefined;
  if (own?.op !== 'delete' || own.fence === undefined || more) return undefined;
  const { unit, fence } = own;
  let next: string | undefined;
  if (then?.op === 'insert') {
    if (!then.lease || then.held || then.dueAt !== undefined || then.taken !== undefined) return undefined;
    next = then.unit;
  } else if (then?.op !== 'clear') {
    return undefined;
  }
  const plain = plainCall(call.events);
  return plain && { call, plain, unit, fence, next };
}
