import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { createDatabase, type Server } from './compare.ts';
import { ContenderClient } from './contender-client.ts';
import { runsEnded } from './many-workers.ts';
import { parallelLoop } from './runledger.ts';

export interface LoopResult {
  readonly workers: number;
  readonly iterations: number;
  readonly rate: number;
  /** Of the largest worker process. */
  readonly peakBytes: number;
  /** Share of the busy connections' time in which they wait for a lock of another one. */
  readonly lockShare: number;
  readonly errors: readonly string[];
}

const IN_FLIGHT = 64;

/** One loop of so many iterations, taken by so many worker processes. */
export async function loopOn(server: Server, workers: number, iterations: number): Promise<LoopResult> {
  const database = `steps_loop_${workers}`;
  const target = await createDatabase(server, database);
  const folder = join(server.folder, database);
  mkdirSync(folder);
  const options = { playbook: parallelLoop(iterations, IN_FLIGHT), concurrency: Math.ceil(IN_FLIGHT / workers) };
  const open = (role: 'starter' | 'worker') =>
    ContenderClient.open({ name: 'runledger', target, folder, role, options });
  const starter = await open('starter');
  const clients = await Promise.all(Array.from({ length: workers }, () => open('worker')));
  const watch = new pg.Client({ ...target });
  await watch.connect();
  try {
    const id = randomUUID();
    const from = performance.now();
    await starter.ask('start', { id });
    const { lockShare } = await runsEnded(watch, 1);
    const took = performance.now() - from;
    const told = await Promise.all(clients.map((client) => client.ask('tell')));
    const calls = told.reduce((sum, each) => sum + each.calls, 0);
    const errors = told.flatMap((each) => each.errors);
    if (calls < iterations) errors.push(`only ${calls} iterations were called`);
    return {
      workers,
      iterations,
      rate: iterations / (took / 1000),
      peakBytes: Math.max(...told.map((each) => each.maxRss)),
      lockShare,
      errors,
    };
  } finally {
    await watch.end();
    await Promise.all([starter, ...clients].map((client) => client.close()));
  }
}
