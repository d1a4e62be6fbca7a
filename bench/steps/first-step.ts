import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from '../harness.ts';
import type { Opened } from './compare.ts';
import { ContenderClient } from './contender-client.ts';

export interface FirstStep {
  readonly contender: string;
  readonly where: 'in process' | 'across processes';
  readonly p50: number;
  readonly p99: number;
  readonly count: number;
}

const spread = (took: readonly number[]) => ({
  p50: quantile(took, 0.5),
  p99: quantile(took, 0.99),
  count: took.length,
});

/** From the request for a run to the call of its first step, on an idle system. */
export async function firstStepHere({ entry, client }: Opened, count: number, ms: number): Promise<FirstStep> {
  await client.ask('first', { count: 5, ms: ms / 4 });
  return { contender: entry.label, where: 'in process', ...spread(await client.ask('first', { count, ms })) };
}

/** The same where one process asks and another one works. */
export async function firstStepAcross(opened: Opened, count: number, ms: number): Promise<FirstStep> {
  const { entry, target, folder } = opened;
  const open = (role: 'starter' | 'worker') =>
    ContenderClient.open({ name: entry.name, target, folder, role, options: entry.options ?? {} });
  const worker = await open('worker');
  const starter = await open('starter');
  try {
    const took: number[] = [];
    const until = performance.now() + ms;
    for (let i = 0; i < count + 5 && (i < 8 || performance.now() < until); i++) {
      const id = randomUUID();
      const first = worker.first(id);
      const asked = await starter.ask('start', { id });
      const at = await first;
      // The first ones open connections and plans.
      if (i >= 5) took.push(at - asked);
      await sleep(25 + Math.random() * 10);
    }
    return { contender: entry.label, where: 'across processes', ...spread(took) };
  } finally {
    await starter.close();
    await worker.close();
  }
}
