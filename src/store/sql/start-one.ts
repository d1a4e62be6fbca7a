import { NO_STATUS } from '../prepared-event.ts';
import { isDoubt } from './append-events.ts';
import type { RunStart, StartedRun } from './create-runs.ts';
import { quoteOrNull } from './encode-batch.ts';
import { encodeEvents, eventParameters } from './encode-events.ts';
import { allNew } from './hand-over-one.ts';
import { plainCall } from './plain-call.ts';
import type { Postgres, Statement } from './postgres.ts';

const START_ONE: Statement = {
  name: 'start_one',
  text: `select new_key::text as key, us::text as us, array_to_string(fences, ',') as fences
    from runledger.start_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14::integer, $15::integer, $16::text[], $17::text[],
      $18::text[], $19::integer[], ${eventParameters(19)})`,
};

interface StartRow {
  readonly key: string;
  readonly us: string;
  readonly fences: string;
}

/** Creates a lone run, its first events and its first work. Undefined: the run is there already, or its events are not plain. */
export async function startOne(postgres: Postgres, run: RunStart): Promise<StartedRun | undefined> {
  const { events, work } = run;
  const plain = plainCall(events);
  // A new run has no status and no facts of steps.
  if (events.length === 0 || !plain || !(plain.statuses & NO_STATUS) || plain.probes.some(({ isStored }) => isStored)) {
    return undefined;
  }
  const list = (cell: (unit: (typeof work)[number]) => string | number): string => `{${work.map(cell).join(',')}}`;
  let row: StartRow | undefined;
  try {
    [row] = await postgres.query<StartRow>(START_ONE, [
      run.runId,
      run.tenantId,
      run.projectId,
      run.environmentId,
      run.planId,
      run.planVersion,
      run.requestKey,
      run.triggerKey,
      run.triggerType,
      run.triggerRef,
      run.parentRunId,
      run.retryOf,
      run.engine,
      plain.status || NO_STATUS,
      plain.decided,
      list(({ unit }) => quoteOrNull(unit)),
      list(({ dueAt }) => quoteOrNull(dueAt)),
      list(({ owner }) => quoteOrNull(owner)),
      list(({ leaseMs }) => leaseMs ?? 0),
      ...encodeEvents(events),
    ]);
  } catch (error) {
    // A range of keys without a partition looks like a violated constraint.
    if (isDoubt(error) || (error as { code?: string }).code === '23514') return undefined;
    throw error;
  }
  const { key, us, fences } = row!;
  const numbers = fences.split(',').map(Number);
  const leases = work.flatMap(({ unit, owner }, i) => (owner === undefined ? [] : [{ unit, fence: numbers[i]! }]));
  return { runKey: Number(key), runId: run.runId, created: true, answer: allNew(events.length, 0, Number(us)), leases };
}
