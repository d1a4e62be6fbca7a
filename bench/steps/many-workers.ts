import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { CATALOGUE } from '../../src/contracts/catalogue.ts';
import { statusBit } from '../../src/store/prepared-event.ts';
import { createDatabase, type Server } from './compare.ts';
import { STEPS } from './contender.ts';
import { ContenderClient } from './contender-client.ts';

export interface ManyWorkers {
  readonly workers: number;
  readonly runs: number;
  readonly rate: number;
  readonly errors: readonly string[];
  /** Workers that called steps. */
  readonly busy: number;
}

const LOOK_MS = 20;
const LONGEST_MS = 300_000;

/** Waits until so many runs have completed, and sees meanwhile how often connections wait for each other's locks. */
export async function runsEnded(watch: pg.Client, count: number): Promise<{ lockShare: number }> {
  const until = performance.now() + LONGEST_MS;
  let [busy, waiting] = [0, 0];
  for (;;) {
    const { rows } = await watch.query<{ ended: string; busy: string; waiting: string }>(
      `
      select (select count(*) from runledger.runs where status = $1) as ended,
             count(*) as busy, count(*) filter (where wait_event_type = 'Lock') as waiting
        from pg_stat_activity
       where datname = current_database() and state = 'active' and pid <> pg_backend_pid()`,
      [statusBit('COMPLETED')],
    );
    busy += Number(rows[0]!.busy);
    waiting += Number(rows[0]!.waiting);
    if (Number(rows[0]!.ended) >= count) return { lockShare: busy === 0 ? 0 : waiting / busy };
    if (performance.now() > until) throw new Error(`only ${rows[0]!.ended} of ${count} runs have completed`);
    await sleep(LOOK_MS);
  }
}

/** Worker processes that share one Postgres, and runs that somebody else asks for. */
export async function manyWorkers(server: Server, workers: number, runs: number): Promise<ManyWorkers> {
  const target = await createDatabase(server, 'steps_many');
  const folder = join(server.folder, 'steps_many');
  mkdirSync(folder);
  const open = (role: 'starter' | 'worker') =>
    ContenderClient.open({ name: 'runledger', target, folder, role, options: { concurrency: 8 } });
  const starter = await open('starter');
  const clients: ContenderClient[] = [];
  // A few at a time: all at once on few cores would measure how Node starts.
  while (clients.length < workers) clients.push(...(await Promise.all([open('worker'), open('worker')])));
  const watch = new pg.Client({ ...target });
  await watch.connect();
  try {
    const from = performance.now();
    await starter.ask('startMany', { ids: Array.from({ length: runs }, () => randomUUID()) });
    await runsEnded(watch, runs);
    const took = performance.now() - from;
    const told = await Promise.all(clients.map((client) => client.ask('tell')));
    const { rows } = await watch.query<{ steps: string }>(
      'select count(*) as steps from runledger.run_events where type = $1',
      [CATALOGUE.StepCompleted.code],
    );
    const errors = told.flatMap((each) => each.errors);
    if (Number(rows[0]!.steps) !== runs * STEPS) errors.push(`${rows[0]!.steps} steps completed`);
    return {
      workers,
      runs,
      rate: (runs * STEPS) / (took / 1000),
      errors,
      busy: told.filter((each) => each.calls > 0).length,
    };
  } finally {
    await watch.end();
    await Promise.all([starter, ...clients].map((client) => client.close()));
  }
}
