import { AppError } from '../../contracts/errors.ts';
import { STEP_FACTS, statusOfBit } from '../prepared-event.ts';
import { encodeCalls, type PreparedCall } from './encode-batch.ts';
import type { Postgres, Statement } from './postgres.ts';

const APPEND: Statement = {
  name: 'append_events',
  text: `
    select array_to_string(seqs, ',', '0') as seqs, array_to_string(micros, ',', '0') as micros,
           array_to_string(fresh, ',', 'f') as fresh, array_to_string(answers, ',') as answers,
           array_to_string(infos, ',', '0') as infos
      from runledger.append_core($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::text[], $6::integer[],
             $7::smallint[], $8::smallint[], $9::text[], $10::integer[], $11::integer[], $12::text[], $13::text[],
             $14::integer[], $15::integer[], $16::integer[], $17::bytea)`,
};

export interface AppendRow {
  readonly seqs: string;
  readonly micros: string;
  readonly fresh: string;
  readonly answers: string;
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
  // A deadlock is answered by splitting the batch, not by repeating it.
  const rows = await postgres.query<AppendRow>(APPEND, encodeCalls(calls), { contention: calls.length > 1 ? 'throw' : 'retry' });
  return readAnswers(calls, rows[0] as AppendRow);
}

export function readAnswers(calls: readonly PreparedCall[], row: AppendRow): CallAnswer[] {
  const seqs = row.seqs.split(',');
  const micros = row.micros.split(',');
  const fresh = row.fresh.split(',');
  const answers = row.answers.split(',');
  const infos = (row.infos ?? '').split(',');
  let at = 0;
  return calls.map((call, index) => {
    const from = at;
    at += call.events.length;
    const answer = Number(answers[index]);
    if (answer !== 0) return { ok: false, error: refusal(call, answer, Number(infos[index] ?? 0)) };
    return {
      ok: true,
      seqs: seqs.slice(from, at).map(Number),
      micros: micros.slice(from, at).map(Number),
      fresh: fresh.slice(from, at).map((flag) => flag === 't'),
    };
  });
}

/** The same refusal gives the same error, so that a retry is answered alike. */
function refusal(call: PreparedCall, answer: number, info: number): AppError {
  const runId = call.events[0]?.event.runId;
  if (answer === 1) return new AppError('RUN_NOT_FOUND', `There is no run ${runId}`, { runId });
  if (answer === 2) {
    return new AppError('HEAD_MOVED', `Run ${runId} was decided on event ${call.expectedHead}, but ${info} is the newest`, {
      runId,
      expectedHead: call.expectedHead,
      actualHead: info,
    });
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
      actualState: actual,
      position,
    },
  );
}

function stepState(mask: number): string {
  const facts = STEP_FACTS.filter((_, bit) => mask & (1 << bit));
  return facts.length === 0 ? 'PENDING' : facts.join('+');
}
