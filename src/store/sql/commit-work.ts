import { AppError } from '../../contracts/errors.ts';
import type { Lease, LoopChange, WorkChange } from '../work.ts';
import { ANSWER_COLUMNS, type AppendRow, type CallAnswer, isDoubt, readAnswers } from './append-events.ts';
import { encodeCalls, type PreparedCall, quoteOrNull } from './encode-batch.ts';
import { endIterations } from './end-iterations.ts';
import { handOverWork } from './hand-over-work.ts';
import type { Statement } from './postgres.ts';

/** A row of receipts that follows from an effect event of the call. */
export interface ReceiptChange {
  readonly op: 1 | 2 | 3 | 4;
  readonly key: string;
  readonly path: string;
  readonly settledBy?: string | undefined;
  readonly details: string;
}

export interface PreparedCommit extends PreparedCall {
  readonly owner: string | undefined;
  readonly tenantId: string;
  readonly leaseMs: number;
  readonly work: readonly WorkChange[];
  readonly loops: readonly LoopChange[];
  readonly receipts: readonly ReceiptChange[];
}

export type CommitAnswer = CallAnswer & {
  readonly leases?: readonly Lease[];
  readonly handouts?: readonly Lease[];
  readonly reason?: 'LEASE_LOST' | 'EFFECT_TAKEN';
};

const parameters = (types: readonly string[]): string => types.map((type, i) => `$${i + 1}::${type}[]`).join(', ');

const TYPES_BEFORE_BYTES = [
  'bigint',
  'integer',
  'bigint',
  'bigint',
  'text',
  'integer',
  'smallint',
  'bigint',
  'smallint',
  'text',
  'integer',
  'integer',
  'text',
  'integer',
  'integer',
  'integer',
  'integer',
  'integer',
];
const TYPES_AFTER_BYTES = [
  'text',
  'text',
  'integer',
  'integer',
  'smallint',
  'text',
  'bigint',
  'text',
  'boolean',
  'integer',
  'smallint',
  'text',
  'text',
  'text',
  'text',
  'integer',
  'smallint',
  'text',
  'integer',
  'integer',
  'integer',
  'integer',
  'boolean',
  'text',
];

const COMMIT: Statement = {
  name: 'commit_work',
  text: `select ${ANSWER_COLUMNS}, array_to_string(fences, ',', '') as fences, handouts
    from runledger.commit_work(${parameters(TYPES_BEFORE_BYTES)}, $19::bytea, ${TYPES_AFTER_BYTES.map((type, i) => `$${i + 20}::${type}[]`).join(', ')},
      $${TYPES_AFTER_BYTES.length + 20}::boolean)`,
};

interface CommitRow extends AppendRow {
  readonly fences: string | null;
  readonly handouts: string[] | null;
}

/** Runs the statement, on the pool or inside a transaction. */
export type Execute = <Row>(statement: Statement, values: unknown[]) => Promise<Row[]>;

const OPS = { check: 0, delete: 1, insert: 2, hold: 3, letGo: 4, clear: 5, stop: 6 } as const;

/**
 * Commits a batch of calls in one transaction and, where nothing is in doubt, in one round trip: that no call is refused and
 * nothing was stored before is taken for granted, and looked for only when it turns out to be wrong. A doubt ends the
 * transaction, so that inside a longer one (`isAlone` false) everything is looked for at once.
 */
export async function commitWork(
  execute: Execute,
  calls: readonly PreparedCommit[],
  { isAlone }: { readonly isAlone: boolean },
): Promise<CommitAnswer[]> {
  const order = calls.map((_, i) => i).sort((a, b) => calls[a]!.runKey - calls[b]!.runKey);
  const sorted = order.map((i) => calls[i]!);
  const tried = isAlone ? await inShort(execute, sorted) : 'doubt';
  const found = typeof tried === 'string' ? await inFull(execute, sorted, { assumeNew: tried === 'other' }) : tried;
  const answers: CommitAnswer[] = [];
  found.forEach((answer, at) => {
    answers[order[at]!] = answer;
  });
  return answers;
}

/** The two usual kinds of batches have functions of their own. */
async function inShort(
  execute: Execute,
  calls: readonly PreparedCommit[],
): Promise<CommitAnswer[] | 'other' | 'doubt'> {
  const tried = await handOverWork(execute, calls);
  return tried === 'other' ? endIterations(execute, calls) : tried;
}

async function inFull(
  execute: Execute,
  calls: readonly PreparedCommit[],
  { assumeNew }: { readonly assumeNew: boolean },
): Promise<CommitAnswer[]> {
  const given = [...encodeCalls(calls), ...workColumns(calls)];
  try {
    const [row] = await execute<CommitRow>(COMMIT, [...given, assumeNew]);
    return readCommitAnswers(calls, row!);
  } catch (error) {
    if (!assumeNew || !isDoubt(error)) throw error;
    return inFull(execute, calls, { assumeNew: false });
  }
}

function workColumns(calls: readonly PreparedCommit[]): unknown[] {
  const work = calls.flatMap((call, i) => call.work.map((change) => ({ at: i + 1, change })));
  const receipts = calls.flatMap((call, i) => call.receipts.map((change) => ({ at: i + 1, change })));
  const loops = calls.flatMap((call, i) => call.loops.map((change) => ({ at: i + 1, change })));
  const list = <T>(items: readonly T[], cell: (item: T) => string | number): string => `{${items.map(cell).join(',')}}`;
  const none = 'NULL';
  return [
    list(calls, (call) => quoteOrNull(call.owner)),
    list(calls, (call) => quoteOrNull(call.tenantId)),
    list(calls, (call) => call.leaseMs),
    list(work, ({ at }) => at),
    list(work, ({ change }) => OPS[change.op]),
    list(work, ({ change }) => quoteOrNull('unit' in change ? change.unit : '')),
    list(
      work,
      ({ change }) => (change.op === 'insert' ? change.taken : 'fence' in change ? change.fence : undefined) ?? none,
    ),
    list(work, ({ change }) => quoteOrNull(change.op === 'insert' ? change.dueAt : undefined)),
    // Null stands for held.
    list(work, ({ change }) => (change.op === 'insert' ? (change.held ? none : change.lease ? 't' : 'f') : 'f')),
    list(receipts, ({ at }) => at),
    list(receipts, ({ change }) => change.op),
    list(receipts, ({ change }) => quoteOrNull(change.key)),
    list(receipts, ({ change }) => quoteOrNull(change.path)),
    list(receipts, ({ change }) => quoteOrNull(change.settledBy)),
    list(receipts, ({ change }) => quoteOrNull(change.details)),
    list(loops, ({ at }) => at),
    list(loops, ({ change }) => (change.op === 'begin' ? 1 : 2)),
    list(loops, ({ change }) => quoteOrNull(change.loop)),
    list(loops, ({ change }) => (change.op === 'begin' ? change.next : none)),
    list(loops, ({ change }) => (change.op === 'begin' ? change.total : none)),
    list(loops, ({ change }) => (change.op === 'begin' ? change.inFlight : none)),
    list(loops, ({ change }) => (change.op === 'begin' ? change.maxInFlight : none)),
    list(loops, ({ change }) => (change.op === 'ended' && change.stop ? 't' : 'f')),
    list(loops, ({ change }) => quoteOrNull(change.op === 'begin' ? `{${change.skip.join(',')}}` : undefined)),
  ];
}

function readCommitAnswers(calls: readonly PreparedCommit[], row: CommitRow): CommitAnswer[] {
  const codes = row.answers?.split(',') ?? [];
  const fences = row.fences?.split(',') ?? [];
  const handouts = calls.map((): Lease[] => []);
  for (const text of row.handouts ?? []) {
    const [call, fence, ...unit] = text.split(':');
    handouts[Number(call) - 1]?.push({ fence: Number(fence), unit: unit.join(':') });
  }
  let op = 0;
  return readAnswers(calls, row).map((answer, i): CommitAnswer => {
    const call = calls[i]!;
    const leases: Lease[] = [];
    for (const change of call.work) {
      const fence = fences[op++];
      if (change.op !== 'insert' || !fence) continue;
      const { unit, taken } = change;
      leases.push({ unit, fence: Number(fence), ...(taken === undefined ? {} : { deliveries: taken + 1 }) });
    }
    const code = Number(codes[i] ?? 0);
    const runId = call.events[0]?.event.runId;
    if (code === 5) {
      const error = new AppError('LEASE_LOST', `Somebody else holds the lease now, or the unit has ended`, { runId });
      return { ok: false, reason: 'LEASE_LOST', error };
    }
    if (code === 6) {
      const error = new AppError('EFFECT_TAKEN', 'The effect has a receipt under this key already', { runId });
      return { ok: false, reason: 'EFFECT_TAKEN', error };
    }
    return { ...answer, leases, handouts: handouts[i]! };
  });
}
