import type { PreparedEvent } from '../prepared-event.ts';
import { ANSWER_COLUMNS, type AppendRow } from './append-events.ts';
import { eventColumns, quoteOrNull, relate } from './encode-batch.ts';
import type { Postgres, Statement } from './postgres.ts';

const CREATE: Statement = {
  name: 'create_runs',
  text: `
    select array_to_string(run_keys, ',') as keys, run_ids as ids, array_to_string(created, ',') as created,
           ${ANSWER_COLUMNS}
      from runledger.create_runs($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
             $9::text[], $10::text[], $11::text[], $12::text[], $13::integer[], $14::integer[], $15::smallint[], $16::text[],
             $17::integer[], $18::integer[], $19::text[], $20::integer[], $21::integer[], $22::integer[], $23::integer[], $24::integer[], $25::bytea)`,
};

export interface RunInsert {
  readonly runId: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly planId: string;
  readonly planVersion: string;
  readonly requestKey: string | null;
  readonly triggerKey: string | null;
  readonly triggerType: string | null;
  readonly triggerRef: string | null;
  readonly parentRunId: string | null;
  readonly retryOf: string | null;
  readonly events: readonly PreparedEvent[];
}

export interface RunInserted {
  readonly runKey: number;
  readonly runId: string;
  readonly created: boolean;
}

export interface CreateRow extends AppendRow {
  readonly keys: string;
  readonly ids: string[];
  readonly created: string;
}

/** Creates runs and their first events in one transaction. Sorted by id, so that two batches cannot deadlock. */
export async function createRuns(
  postgres: Postgres,
  runs: readonly RunInsert[],
): Promise<{ inserted: RunInserted[]; row: CreateRow }> {
  const column = (pick: (run: RunInsert) => string | null) =>
    `{${runs.map((run) => quoteOrNull(pick(run))).join(',')}}`;
  const withEvents = runs.map((run, i) => ({ run, i })).filter(({ run }) => run.events.length > 0);
  const [row] = await postgres.query<CreateRow>(
    CREATE,
    [
      column((r) => r.runId),
      column((r) => r.tenantId),
      column((r) => r.projectId),
      column((r) => r.environmentId),
      column((r) => r.planId),
      column((r) => r.planVersion),
      column((r) => r.requestKey),
      column((r) => r.triggerKey),
      column((r) => r.triggerType),
      column((r) => r.triggerRef),
      column((r) => r.parentRunId),
      column((r) => r.retryOf),
      `{${withEvents.map(({ i }) => i + 1).join(',')}}`,
      `{${withEvents.map(({ run }) => run.events.length).join(',')}}`,
      ...eventColumns(relate(withEvents.map(({ run, i }) => ({ runKey: i, events: run.events })))),
    ],
    { contention: runs.length > 1 ? 'throw' : 'retry' },
  );
  const keys = (row as CreateRow).keys.split(',');
  const created = (row as CreateRow).created.split(',');
  const inserted = runs.map((_, i) => ({
    runKey: Number(keys[i]),
    runId: (row as CreateRow).ids[i] as string,
    created: created[i] === 't',
  }));
  return { inserted, row: row as CreateRow };
}
