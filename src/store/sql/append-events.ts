import { eventRow } from '../../contracts/catalogue.ts';
import { AppError } from '../../contracts/errors.ts';
import { STEP_FACTS, statusOfBit } from '../prepared-event.ts';
import { appendSingles, areSingles } from './append-singles.ts';
import { encodeCalls, encodeOne, type PreparedCall } from './encode-batch.ts';
import type { Postgres, Statement } from './postgres.ts';

/** What append_core answers, as text that is cheap to split. Columns in which nothing is special are null. */
export const ANSWER_COLUMNS = `array_to_string(seqs, ',', '0') as seqs, us::text as us, array_to_string(other_us, ',', '') as other_us,
  array_to_string(fresh, ',', '') as fresh, array_to_string(answers, ',', '') as answers, array_to_string(infos, ',', '') as infos`;

const APPEND: Statement = {
  name: 'append_events',
  text: `
    select ${ANSWER_COLUMNS}
      from runledger.append_core($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::text[], $6::integer[],
             $7::smallint[], $8::bigint[], $9::smallint[], $10::text[], $11::integer[], $12::integer[], $13::text[], $14::integer[],
             $15::integer[], $16::integer[], $17::integer[], $18::integer[], $19::bytea, $20::boolean)`,
};

const APPEND_ONE: Statement = {
  name: 'append_one',
  text: `
    select seq::text as seq, us::text as us, fresh, answer, info::text as info
      from runledger.append_one($1::bigint, $2::smallint, $3, $4::integer, $5::integer, $6, $7, $8::integer, $9::smallint[], $10::bigint, $11::bytea)`,
};

interface OneRow {
  readonly seq: string | null;
  readonly us: string | null;
  readonly fresh: boolean | null;
  readonly answer: number | null;
  readonly info: string | null;
}

/** A lone event: most of the cost of a small call is fixed, so it has a statement of its own. */
async function appendOne(postgres: Postgres, call: PreparedCall): Promise<CallAnswer> {
  const [row] = await postgres.query<OneRow>(APPEND_ONE, encodeOne(call));
  const { seq, us, fresh, answer, info } = row as OneRow;
  if (answer !== null) return { ok: false, error: refusal(call, answer, Number(info)) };
  return { ok: true, seqs: [Number(seq)], micros: [Number(us)], fresh: [fresh !== false] };
}

export interface AppendRow {
  readonly seqs: string | null;
  readonly us: string;
  readonly other_us: string | null;
  readonly fresh: string | null;
  readonly answers: string | null;
  readonly infos: string | null;
}

/** What the append authority said to one call. */
export type CallAnswer =
  | {
      readonly ok: true;
      readonly seqs: readonly number[];
      readonly micros: readonly number[];
      /** False where the event was stored before. */
      readonly fresh: readonly boolean[];
    }
  | { readonly ok: false; readonly error: AppError };

/** Appends a batch of calls in one round trip and one transaction. */
export async function appendEvents(postgres: Postgres, calls: readonly PreparedCall[]): Promise<CallAnswer[]> {
  const [only] = calls;
  if (calls.length === 1 && only?.events.length === 1) return [await appendOne(postgres, only)];
  // The database walks the runs in the order of their keys, as it locks them; the sort keeps the calls of a run in order.
  const order = calls
    .map((_, i) => i)
    .sort((a, b) => (calls[a] as PreparedCall).runKey - (calls[b] as PreparedCall).runKey);
  const sorted = order.map((i) => calls[i] as PreparedCall);
  const first = areSingles(sorted) ? singleAnswers(postgres, sorted) : coreAnswers(postgres, sorted, true);
  const answered = await first.catch((error: unknown) => {
    if (isDoubt(error)) return coreAnswers(postgres, sorted, false);
    throw error;
  });
  const answers: CallAnswer[] = [];
  answered.forEach((answer, at) => {
    answers[order[at] as number] = answer;
  });
  return answers;
}

async function coreAnswers(
  postgres: Postgres,
  calls: readonly PreparedCall[],
  assumeNew: boolean,
): Promise<CallAnswer[]> {
  // A deadlock is answered by splitting the batch, not by repeating it.
  const contention = calls.length > 1 ? 'throw' : 'retry';
  const [row] = await postgres.query<AppendRow>(APPEND, [...encodeCalls(calls), assumeNew], { contention });
  return readAnswers(calls, row as AppendRow);
}

async function singleAnswers(postgres: Postgres, calls: readonly PreparedCall[]): Promise<CallAnswer[]> {
  const { seqs, us } = await appendSingles(postgres, calls);
  // The same for all of them.
  const [micros, fresh] = [[us], [true]];
  return seqs.map((seq) => ({ ok: true, seqs: [seq], micros, fresh }));
}

/** An event of the batch was stored before, or a call was refused that perhaps was: nothing has happened yet. */
export function isDoubt(error: unknown): boolean {
  const code = (error as { code?: string }).code;
  return code === '23505' || code === 'RL003';
}

export function readAnswers(calls: readonly PreparedCall[], row: AppendRow): CallAnswer[] {
  const seqs = row.seqs?.split(',') ?? [];
  const others = row.other_us?.split(',') ?? [];
  const fresh = row.fresh?.split(',') ?? [];
  const answers = row.answers?.split(',') ?? [];
  const infos = row.infos?.split(',') ?? [];
  const us = Number(row.us);
  let at = 0;
  return calls.map((call, index) => {
    const from = at;
    at += call.events.length;
    const answer = Number(answers[index] ?? 0);
    if (answer !== 0) return { ok: false, error: refusal(call, answer, Number(infos[index] ?? 0)) };
    return {
      ok: true,
      seqs: call.events.map((_, i) => Number(seqs[from + i])),
      micros: call.events.map((_, i) => (others[from + i] ? Number(others[from + i]) : us)),
      fresh: call.events.map((_, i) => fresh[from + i] !== 'f'),
    };
  });
}

/** The same refusal gives the same error, so that a retry is answered alike. */
function refusal(call: PreparedCall, answer: number, info: number): AppError {
  const runId = call.events[0]?.event.runId;
  if (answer === 1) return new AppError('RUN_NOT_FOUND', `There is no run ${runId}`, { runId });
  if (answer === 2) {
    return new AppError(
      'HEAD_MOVED',
      `Run ${runId} was decided on event ${call.expectedHead}, but ${info} is the newest`,
      {
        runId,
        expectedHead: call.expectedHead,
        actualHead: info,
      },
    );
  }
  const position = Math.floor(info / 65_536);
  const event = call.events[position]?.event;
  const entity = event?.stepId ?? 'RUN';
  const actual = answer === 3 ? (statusOfBit(info % 65_536) ?? 'none') : stepState(info % 65_536);
  return new AppError(
    'INVALID_TRANSITION',
    `${event?.eventType} is not allowed for ${entity === 'RUN' ? `run ${runId}` : `step ${entity}`} in state ${actual}`,
    {
      runId,
      entity,
      logicalAttemptId: event?.logicalAttemptId,
      attemptedEventType: event?.eventType,
      expectedState: expectedState(event?.eventType ?? ''),
      actualState: actual,
      position,
    },
  );
}

/** The state that the stored facts of an attempt amount to. A later fact of the machine outweighs an earlier one. */
function stepState(mask: number): string {
  const last = STEP_FACTS.findLast((_, bit) => mask & (1 << bit));
  return (last && eventRow(last)?.stepMove?.to) ?? 'PENDING';
}

function expectedState(eventType: string): string {
  const row = eventRow(eventType);
  return row?.stepMove?.from ?? row?.runMove?.from.filter((status) => status !== null).join('|') ?? 'not terminal';
}
