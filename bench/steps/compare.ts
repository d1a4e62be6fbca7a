import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { type Bytes, bytesOf } from './bytes-on-disk.ts';
import type { Target } from './contender.ts';
import { ContenderClient } from './contender-client.ts';
import { cpuSeconds } from './cpu-seconds.ts';

export interface Entry {
  /** As the tables call it. */
  readonly label: string;
  readonly name: string;
  readonly options?: Readonly<Record<string, unknown>>;
}

export const OURS = 'runledger';
export const OURS_PLAIN = 'runledger, run-ahead off';

export const ENTRIES: readonly Entry[] = [
  { label: OURS, name: 'runledger' },
  { label: OURS_PLAIN, name: 'runledger', options: { runAhead: false } },
  { label: 'dbos', name: 'dbos' },
  { label: 'restate', name: 'restate' },
  { label: 'openworkflow', name: 'openworkflow' },
  { label: 'graphile-worker (jobs)', name: 'graphile-worker' },
];

/** A contender with a database and a process of its own on the shared server. */
export interface Opened {
  readonly entry: Entry;
  readonly target: Target;
  readonly folder: string;
  readonly client: ContenderClient;
}

export interface Sample {
  readonly contender: string;
  readonly concurrency: number;
  readonly steps: number;
  readonly rate: number;
  readonly p50: number;
  readonly p99: number;
  /** CPU seconds per 1,000 steps: the contender's process, its server if it has one, and Postgres. */
  readonly cpu: number | null;
  readonly bytesPerStep: number;
}

export interface Server {
  readonly target: Target;
  readonly pid: number;
  readonly folder: string;
}

export async function createDatabase(server: Server, name: string): Promise<Target> {
  const client = new pg.Client({ ...server.target });
  await client.connect();
  try {
    await client.query(`create database ${name}`);
  } finally {
    await client.end();
  }
  return { ...server.target, database: name };
}

export async function openAll(server: Server, entries: readonly Entry[]): Promise<Opened[]> {
  return Promise.all(
    entries.map(async (entry, i) => {
      const target = await createDatabase(server, `steps_${i}`);
      const folder = join(server.folder, `steps_${i}`);
      mkdirSync(folder);
      const { name, options = {} } = entry;
      return { entry, target, folder, client: await ContenderClient.open({ name, target, folder, options }) };
    }),
  );
}

/** One round of one contender: a warm-up, then the measured part with what it cost. */
export async function measure(
  server: Server,
  { entry, client, target, folder }: Opened,
  concurrency: number,
  ms: number,
): Promise<Sample> {
  await client.ask('measure', { concurrency, ms: ms / 3 });
  const place: Bytes = { target, folder, isInFolder: entry.name === 'restate' };
  const bytes = await bytesOf(place);
  const cpu = cpuSeconds([client.pid, server.pid]);
  const result = await client.ask('measure', { concurrency, ms });
  const used = cpuSeconds([client.pid, server.pid]);
  return {
    contender: entry.label,
    concurrency,
    ...result,
    cpu: cpu === undefined || used === undefined ? null : ((used - cpu) / result.steps) * 1000,
    bytesPerStep: ((await bytesOf(place)) - bytes) / result.steps,
  };
}
