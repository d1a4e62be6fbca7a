import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Sample } from './compare.ts';

const SOURCE = fileURLToPath(new URL('./slow-fsync.c', import.meta.url));
const SCRIPT = fileURLToPath(new URL('./slow-disk-process.ts', import.meta.url));
const ADDED_MICROS = 1000;

export interface SlowDiskOptions {
  readonly labels: readonly string[];
  readonly concurrencies: readonly number[];
  readonly rounds: number;
  readonly ms: number;
}

/**
 * The same contenders with a millisecond added to every fsync, as on a disk that has to ask for confirmation. They and a
 * Postgres of their own are children of a small C program, which the kernel asks about every fsync; text says why not
 * where it cannot be built.
 */
export async function onSlowDisk(
  options: SlowDiskOptions,
  progress: (text: string) => void,
): Promise<readonly Sample[] | string> {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-bench-slow-'));
  try {
    const program = join(folder, 'slow-fsync');
    try {
      execFileSync('gcc', ['-O2', '-pthread', '-o', program, SOURCE], { stdio: 'pipe' });
      execFileSync(program, ['0', 'true'], { stdio: 'pipe' });
    } catch (error) {
      const why = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no gcc here' : String(error);
      return `not measured: ${why}`;
    }
    const node = [process.execPath, '--import', 'tsx', SCRIPT, JSON.stringify(options)];
    return await new Promise<Sample[]>((resolve, reject) => {
      const child = spawn(program, [String(ADDED_MICROS), ...node], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
      let samples: Sample[] | undefined;
      child.on('message', (message: { progress?: string; samples?: Sample[] }) => {
        if (message.progress !== undefined) progress(`1 ms added to every fsync: ${message.progress}`);
        if (message.samples) samples = message.samples;
      });
      child.once('error', reject);
      child.once('exit', (code, signal) => {
        if (samples) resolve(samples);
        else reject(new Error(`the part with the slow disk ended with ${code ?? signal}`));
      });
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
