import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { median } from '../harness.ts';
import { createDatabase, type Server } from './compare.ts';
import { ContenderClient } from './contender-client.ts';
import { cpuSeconds } from './cpu-seconds.ts';
import { ringOfSteps } from './runledger.ts';

export interface LongRun {
  readonly steps: number;
  /** Microseconds per step in each tenth of the run. */
  readonly tenths: readonly number[];
  /** The last tenth against the first. */
  readonly growth: number;
  readonly cpuSecondsPerThousand: number | null;
}

/** One run of many steps after another: what a step costs at the beginning and at the end. */
export async function longRun(server: Server, steps: number, rounds: number): Promise<LongRun> {
  const target = await createDatabase(server, 'steps_long');
  const folder = join(server.folder, 'steps_long');
  mkdirSync(folder);
  const options = { playbook: ringOfSteps(steps) };
  const client = await ContenderClient.open({ name: 'runledger', target, folder, options });
  try {
    const tenths: number[][] = Array.from({ length: 10 }, () => []);
    let cpu: number | undefined;
    // The first one compiles templates and warms up; it does not count.
    for (let round = 0; round <= rounds; round++) {
      if (round === 1) cpu = cpuSeconds([client.pid, server.pid]);
      await client.ask('tell');
      await client.ask('runOne', { id: randomUUID() });
      const { marks } = await client.ask('tell');
      const size = Math.floor((marks.length - 1) / 10);
      if (round === 0) continue;
      tenths.forEach((tenth, i) => {
        tenth.push(((marks[(i + 1) * size]! - marks[i * size]!) * 1000) / (size * 100));
      });
    }
    const used = cpuSeconds([client.pid, server.pid]);
    const medians = tenths.map((tenth) => median(tenth));
    return {
      steps,
      tenths: medians.map(Math.round),
      growth: medians[9]! / medians[0]!,
      cpuSecondsPerThousand: cpu === undefined || used === undefined ? null : ((used - cpu) / (steps * rounds)) * 1000,
    };
  } finally {
    await client.close();
  }
}
