import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { atMost, type BenchOptions, type BenchReport, median } from './harness.ts';

const ROOT = resolve(import.meta.dirname, '..');

interface Sample {
  readonly wallMs: number;
  readonly cpuMs: number;
}

/** What a newcomer waits for: the whole command, with the start and the end of the database, as a process of its own. */
export async function helloBench({ quick, progress }: BenchOptions): Promise<BenchReport> {
  progress('building');
  execFileSync(process.execPath, [join(ROOT, 'scripts', 'build.mjs'), join(ROOT, 'dist'), '--no-types']);
  const home = mkdtempSync(join(tmpdir(), 'runledger-hello-'));
  // Root's server runs as another account, to which a temporary folder is closed.
  chmodSync(home, 0o755);
  cpSync(join(ROOT, 'examples', 'hello.yaml'), join(home, 'hello.yaml'));
  const command = (...args: string[]): Sample => measured(home, [join(ROOT, 'dist', 'cli', 'main.js'), ...args]);
  try {
    const rounds = quick ? 3 : 10;
    const samples = { 'without a folder': [] as Sample[], warm: [] as Sample[], version: [] as Sample[] };
    for (let round = 1; round <= rounds; round++) {
      progress(`round ${round}/${rounds}`);
      rmSync(join(home, '.runledger'), { recursive: true, force: true });
      samples['without a folder'].push(command('run', 'hello.yaml'));
      samples.warm.push(command('run', 'hello.yaml'));
      samples.version.push(command('version'));
    }
    const wall = (list: readonly Sample[]): number => median(list.map(({ wallMs }) => wallMs));
    const best = (list: readonly Sample[]): number => Math.min(...list.map(({ wallMs }) => wallMs));
    const rows = Object.entries(samples).map(([name, list]) => ({
      command: name,
      'median ms': Math.round(wall(list)),
      'best ms': Math.round(best(list)),
      'cpu ms': Math.round(median(list.map(({ cpuMs }) => cpuMs))),
    }));
    return {
      tables: [{ title: 'runledger run hello.yaml, from the call to the end of the process', rows }],
      goals: [
        atMost('warm folder, median seconds', wall(samples.warm) / 1000, 1),
        atMost('no folder, median seconds', wall(samples['without a folder']) / 1000, 2),
      ],
      figures: samples,
    };
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

/** Writes what the processor did for the process, which says something on a busy machine too, to a pipe of its own. */
const REPORT =
  'data:text/javascript,import{writeSync}from"node:fs";process.on("exit",()=>{const{user,system}=process.cpuUsage();writeSync(3,String(user+system))})';

function measured(cwd: string, args: readonly string[]): Sample {
  const from = performance.now();
  const { status, output } = spawnSync(process.execPath, ['--import', REPORT, ...args], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  const wallMs = performance.now() - from;
  if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}: ${output[2]}`);
  return { wallMs, cpuMs: Number(output[3]) / 1000 };
}
