import type { PreparedEvent } from '../prepared-event.ts';
import { ANSWER_COLUMNS, type AppendRow, type CallAnswer, readAnswers } from './append-events.ts';
import { eventColumns, relate } from './encode-batch.ts';
import type { Postgres, Statement } from './postgres.ts';

const ERASE: Statement = {
  name: 'erase_payloads',
  text: `
    select ${ANSWER_COLUMNS}
      from runledger.erase_payloads($1::bigint, $2::bigint[], $3::smallint[], $4::text[], $5::integer[], $6::integer[],
             $7::text[], $8::integer[], $9::integer[], $10::integer[], $11::integer[], $12::integer[], $13::bytea)`,
};

/** Erases payloads and appends the event that says so, in one transaction. */
export async function erasePayloads(
  postgres: Postgres,
  runKey: number,
  runSeqs: readonly number[],
  event: PreparedEvent,
): Promise<CallAnswer> {
  const [row] = await postgres.query<AppendRow>(ERASE, [
    runKey,
    `{${runSeqs.join(',')}}`,
    ...eventColumns(relate([{ runKey, events: [event] }])),
  ]);
  return readAnswers([{ runKey, events: [event] }], row as AppendRow)[0] as CallAnswer;
}
