import type { PreparedEvent } from '../prepared-event.ts';
import { type AppendRow, type CallAnswer, readAnswers } from './append-events.ts';
import { eventColumns } from './encode-batch.ts';
import type { Postgres, Statement } from './postgres.ts';

const ERASE: Statement = {
  name: 'erase_payloads',
  text: `
    select array_to_string(seqs, ',', '0') as seqs, array_to_string(micros, ',', '0') as micros,
           array_to_string(fresh, ',', 'f') as fresh, array_to_string(answers, ',') as answers,
           array_to_string(infos, ',', '0') as infos
      from runledger.erase_payloads($1::bigint, $2::bigint[], $3::smallint[], $4::text[], $5::integer[], $6::integer[],
             $7::text[], $8::text[], $9::integer[], $10::integer[], $11::integer[], $12::bytea)`,
};

/** Erases payloads and appends the event that says so, in one transaction. */
export async function erasePayloads(
  postgres: Postgres,
  runKey: number,
  runSeqs: readonly number[],
  event: PreparedEvent,
): Promise<CallAnswer> {
  const [row] = await postgres.query<AppendRow>(ERASE, [runKey, `{${runSeqs.join(',')}}`, ...eventColumns([event], [0], [0])]);
  return readAnswers([{ runKey, events: [event] }], row as AppendRow)[0] as CallAnswer;
}
