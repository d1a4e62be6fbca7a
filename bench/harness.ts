import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEmbedded } from '../src/store/embedded/open-embedded.ts';
import { readPidFile } from '../src/store/embedded/postmaster-pid.ts';

export interface BenchOptions {
  readonly quick: boolean;
  /** Says what is going on; shown on one line of the terminal. */
  readonly progress: (text: string) => void;
}

export interface Goal {
  readonly name: string;
  readonly goal: string;
  readonly measured: number;
  readonly met: boolean;
}

/** What a benchmark gives back: tables to print, goals to judge, and every figure for the JSON file. */
export interface BenchReport {
  readonly tables: readonly { readonly title: string; readonly rows: readonly Record<string, string | number>[] }[];
  readonly goals: readonly Goal[];
  readonly figures: unknown;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

export function atLeast(name: string, measured: number, goal: number): Goal {
  return { name, goal: `>= ${goal}`, measured: Number(measured.toFixed(3)), met: measured >= goal };
}

export function atMost(name: string, measured: number, goal: number): Goal {
  return { name, goal: `<= ${goal}`, measured: Number(measured.toFixed(3)), met: measured <= goal };
}

/** A Postgres of its own for one benchmark, durable as in production. */
export async function benchServer(): Promise<{
  target: { host: string; port: number; user: string; database: string };
  /** The process all others of the server descend from. */
  pid: number;
  folder: string;
  close(): Promise<void>;
}> {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-bench-'));
  chmodSync(folder, 0o755);
  const server = await openEmbedded({ folder, settings: { shared_buffers: '512MB', max_wal_size: '4GB' } });
  const pid = (await readPidFile(server.dataDir))?.pid ?? 0;
  const close = async (): Promise<void> => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, interrupted);
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  };
  // The server is no child of this process, and would stay behind.
  const interrupted = (): void => {
    void close().finally(() => process.exit(130));
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupted);
  return { target: server.config, pid, folder, close };
}

/** Peers have an install of their own, so that the project's stays small. */
export function installPeers(): void {
  const folder = import.meta.dirname;
  const peers = Object.keys(peerVersions());
  if (peers.every((name) => existsSync(join(folder, 'node_modules', name, 'package.json')))) return;
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: folder, stdio: 'ignore' });
}

export function peerVersions(): Readonly<Record<string, string>> {
  const text = readFileSync(join(import.meta.dirname, 'package.json'), 'utf8');
  return (JSON.parse(text) as { dependencies: Record<string, string> }).dependencies;
}

export function machine(): Record<string, unknown> {
  return { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version, platform: process.platform };
}
