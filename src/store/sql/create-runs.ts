import type { PreparedEvent } from '../prepared-event.ts';
import type { Lease, NewWork } from '../work.ts';
import { ANSWER_COLUMNS, type AppendRow, type CallAnswer, readAnswers } from './append-events.ts';
import { eventColumns, quoteOrNull, relate } from './encode-batch.ts';
import type { Postgres, Statement } from './postgres.ts';
import { startOne } from './start-one.ts';

const CREATE: Statement = {
  name: 'create_runs',
  text: `
    select array_to_string(run_keys, ',') as keys, run_ids as ids, array_to_string(created, ',') as created,
           ${ANSWER_COLUMNS}
      from runledger.create_runs($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
             $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::integer[], $15::integer[], $16::smallint[], $17::text[],
             $18::integer[], $19::integer[], $20::text[], $21::integer[], $22::integer[], $23::integer[], $24::integer[], $25::integer[], $26::bytea)`,
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
  readonly engine: string;
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
  const [row] = await postgres.query<CreateRow>(CREATE, parameters(runs), {
    contention: runs.length > 1 ? 'throw' : 'retry',
  });
  return { inserted: readInserted(runs, row as CreateRow), row: row as CreateRow };
}

/** The first units of a run's work; with an owner they come leased to it. */
export interface RunStart extends RunInsert {
  readonly work: readonly NewWork[];
}

const START: Statement = {
  name: 'start_runs',
  text: `
    select array_to_string(run_keys, ',') as keys, run_ids as ids, array_to_string(created, ',') as created,
           ${ANSWER_COLUMNS}, array_to_string(fences, ',', '') as fences
      from runledger.start_runs($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
             $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::integer[], $15::integer[], $16::smallint[], $17::text[],
             $18::integer[], $19::integer[], $20::text[], $21::integer[], $22::integer[], $23::integer[], $24::integer[], $25::integer[], $26::bytea,
             $27::integer[], $28::text[], $29::text[], $30::text[], $31::integer[])`,
};

export interface StartedRun extends RunInserted {
  readonly answer: CallAnswer | undefined;
  readonly leases: readonly Lease[];
}

/** Creates runs with their first events and their first work in one transaction. */
export async function startRuns(postgres: Postgres, given: readonly RunStart[]): Promise<StartedRun[]> {
  const lone = given.length === 1 ? await startOne(postgres, given[0]!) : undefined;
  if (lone) return [lone];
  const order = given.map((_, i) => i).sort((a, b) => (given[a]!.runId < given[b]!.runId ? -1 : 1));
  const runs = order.map((i) => given[i]!);
  const work = runs.flatMap((run, i) => run.work.map((unit) => ({ at: i + 1, unit })));
  const list = (cell: (entry: (typeof work)[number]) => string | number): string => `{${work.map(cell).join(',')}}`;
  const [row] = await postgres.query<CreateRow & { fences: string | null }>(
    START,
    [
      ...parameters(runs),
      list(({ at }) => at),
      list(({ unit }) => quoteOrNull(unit.unit)),
      list(({ unit }) => quoteOrNull(unit.dueAt)),
      list(({ unit }) => quoteOrNull(unit.owner)),
      list(({ unit }) => unit.leaseMs ?? 0),
    ],
    { contention: runs.length > 1 ? 'throw' : 'retry' },
  );
  const inserted = readInserted(runs, row!);
  const answers = readAnswers(
    runs.filter((run) => run.events.length > 0).map((run) => ({ runKey: 0, events: run.events })),
    row!,
  );
  const fences = row!.fences?.split(',') ?? [];
  const started: StartedRun[] = [];
  let call = 0;
  let op = 0;
  runs.forEach((run, i) => {
    const leases: Lease[] = [];
    for (const { unit } of run.work) {
      const fence = fences[op++];
      if (fence) leases.push({ unit, fence: Number(fence) });
    }
    started[order[i]!] = { ...inserted[i]!, answer: run.events.length > 0 ? answers[call++] : undefined, leases };
  });
  return started;
}

function parameters(runs: readonly RunInsert[]): unknown[] {
  const column = (pick: (run: RunInsert) => string | null) =>
    `{${runs.map((run) => quoteOrNull(pick(run))).join(',')}}`;
  const withEvents = runs.map((run, i) => ({ run, i })).filter(({ run }) => run.events.length > 0);
  return [
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
    column((r) => r.engine),
    `{${withEvents.map(({ i }) => i + 1).join(',')}}`,
    `{${withEvents.map(({ run }) => run.events.length).join(',')}}`,
    ...eventColumns(relate(withEvents.map(({ run, i }) => ({ runKey: i, events: run.events })))),
  ];
}

function readInserted(runs: readonly RunInsert[], row: CreateRow): RunInserted[] {
  const keys = row.keys.split(',');
  const created = row.created.split(',');
  return runs.map((_, i) => ({
    runKey: Number(keys[i]),
    runId: row.ids[i] as string,
    created: created[i] === 't',
  }));
}
