import { readdirSync, readFileSync } from 'node:fs';
import { until } from '../../src/store/embedded/embedded.fixture.ts';
import { readPidFile } from '../../src/store/embedded/postmaster-pid.ts';

/** The server of this data folder and its children, all at once, as the kernel does when memory runs out. */
export async function killServer(dataDir: string): Promise<void> {
  const pid = (await readPidFile(dataDir))?.pid;
  if (pid === undefined) throw new Error('the server does not run');
  const family = [pid, ...childrenOf(pid)];
  for (const member of family) {
    try {
      process.kill(member, 'SIGKILL');
    } catch {
      // It ended between being listed and being killed.
    }
  }
  await until(() => family.every((member) => !isAlive(member)));
}

function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && statOf(name)?.parent === pid)
    .map(Number);
}

const isAlive = (pid: number): boolean => (statOf(String(pid))?.state ?? 'Z') !== 'Z';

function statOf(pid: string): { state: string; parent: number } | undefined {
  try {
    // The name of the program stands in brackets and may hold anything.
    const [state, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
    return { state: state as string, parent: Number(parent) };
  } catch {
    return undefined;
  }
}
