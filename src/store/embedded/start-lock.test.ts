import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from './embedded.fixture.ts';
import { withStartLock } from './start-lock.ts';

const FIXTURE = fileURLToPath(new URL('./lock-taker.fixture.ts', import.meta.url));

function startTaker(folder: string, journal: string, turns: number): ChildProcess {
  const child = spawn(process.execPath, ['--import', 'tsx', FIXTURE, folder, journal, String(turns)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

function ended(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.once('exit', resolve));
}

test('no two processes hold the lock at once, even if holders are killed', async () => {
  const root = await temporaryFolder();
  const folder = join(root, 'lock');
  const journal = join(root, 'journal');
  await mkdir(folder);
  const victims = [startTaker(folder, journal, 1000), startTaker(folder, journal, 1000)];
  const killed = new Set(victims.map((child) => child.pid));
  const takers = [1, 2, 3, 4, 5, 6].map(() => startTaker(folder, journal, 40));
  const codes = Promise.all(takers.map(ended));
  for (const victim of victims) {
    const gone = ended(victim);
    await sleep(500);
    victim.kill('SIGKILL');
    await gone;
  }
  expect(await codes).toEqual([0, 0, 0, 0, 0, 0]);
  const lines = (await readFile(journal, 'utf8')).trim().split('\n');
  let holder: number | undefined;
  for (const line of lines) {
    const [what, pid] = line.split(' ');
    if (what === 'leave') {
      expect(holder).toBe(Number(pid));
      holder = undefined;
    } else {
      // Only a killed process may be followed by another without having left.
      if (holder !== undefined) expect(killed).toContain(holder);
      holder = Number(pid);
    }
  }
  expect(lines.filter((line) => line.startsWith('leave')).length).toBeGreaterThanOrEqual(240);
  // Old locks do not pile up; one may be left that was claimed while it was being removed.
  expect((await readdir(folder)).filter((name) => name.startsWith('lock.')).length).toBeLessThanOrEqual(2);
});

test('a lock that is held past the deadline is refused with the holder named', async () => {
  const folder = await temporaryFolder();
  await withStartLock(folder, undefined, Date.now() + 1000, async () => {
    const second = withStartLock(folder, undefined, Date.now() + 100, async () => undefined);
    await expect(second).rejects.toMatchObject({ code: 'EMBEDDED_START_FAILED' });
    await expect(second).rejects.toThrow(String(process.pid));
  });
  await expect(withStartLock(folder, undefined, Date.now() + 1000, async () => 'free')).resolves.toBe('free');
});
