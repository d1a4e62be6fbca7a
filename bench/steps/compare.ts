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
  /** The part of Postgres in it. */
  readonly cpuPostgres: number | null;
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
  const before = [cpuSeconds([client.pid]), cpuSeconds([server.pid])];
  const result = await client.ask('measure', { concurrency, ms });
  const after = [cpuSeconds([client.pid]), cpuSeconds([server.pid])];
  const [own, postgres] = after.map((used, i) =>
    used === undefined ? null : ((used - before[i]!) / result.steps) * 1000,
  );
  return {
    contender: entry.label,
    concurrency,
    ...result,
    cpu: own === null || postgres === null ? null : own! + postgres!,
    cpuPostgres: postgres ?? null,
    bytesPerStep: ((await bytesOf(place)) - bytes) / result.steps,
  };
}

/** CPU microseconds of one step by part, Postgres as the rest of what was used. */
export async function stepParts(
  server: Server,
  { client }: Opened,
  concurrency: number,
  ms: number,
): Promise<Record<string, number>> {
  const before = cpuSeconds([server.pid]);
  const { steps, parts } = await client.ask('profile', { concurrency, ms });
  const after = cpuSeconds([server.pid]);
  if (before === undefined || after === undefined) return parts;
  return { ...parts, 'Postgres: append, hand-over, commit': ((after - before) / steps) * 1e6 };
}
