import { spawn } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { cleanServer, temporaryFolder } from './embedded.fixture.ts';
import { currentIdentity, type HostIdentity, isLocal, writeIdentity } from './host-identity.ts';
import { openEmbedded } from './open-embedded.ts';
import { judgePidFile, readPidFile } from './postmaster-pid.ts';

async function leftBehind(firstLine: string, change: Partial<HostIdentity> | 'no note' = {}): Promise<string> {
  const dataDir = join(await temporaryFolder(), 'pg');
  await mkdir(dataDir);
  await writeFile(join(dataDir, 'postmaster.pid'), firstLine);
  if (change !== 'no note') await writeIdentity(dataDir, { ...(await currentIdentity()), ...change });
  return dataDir;
}

function sleeper(): number {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child.pid!;
}

const DEAD_PID = 2 ** 22 + 1; // above the highest pid that Linux gives

test('a lock file of a process that is gone is left to Postgres, which looks for orphans first', async () => {
  expect(await judgePidFile(await leftBehind(`${DEAD_PID}\n`))).toBe('free');
});

test('a lock file whose pid now belongs to another program is stale', async () => {
  expect(await judgePidFile(await leftBehind(`${sleeper()}\n`))).toBe('stale');
});

test('an empty lock file is unfinished, not stale', async () => {
  expect(await judgePidFile(await leftBehind(''))).toBe('unfinished');
});

test('a lock file from another machine, container or program is refused, whatever its pid is here', async () => {
  const foreign: (Partial<HostIdentity> | 'no note')[] = [
    { host: 'elsewhere/0123' },
    { pidNamespace: 'pid:[1]' },
    'no note',
  ];
  for (const change of foreign) {
    const dataDir = await leftBehind(`${DEAD_PID}\n`, change);
    await expect(judgePidFile(dataDir)).rejects.toMatchObject({ code: 'EMBEDDED_IN_USE' });
    expect((await readPidFile(dataDir))?.pid).toBe(DEAD_PID);
  }
});

test('a lock file from before a restart of the machine counts only where no other machine can reach the folder', async () => {
  const dataDir = await leftBehind(`${DEAD_PID}\n`, { bootId: 'an earlier boot' });
  const verdict = judgePidFile(dataDir);
  if (await isLocal(dataDir)) expect(await verdict).toBe('free');
  else await expect(verdict).rejects.toMatchObject({ code: 'EMBEDDED_IN_USE' });
});

test('a server starts over a lock file whose pid was given to another program, and leaves that program alone', async () => {
  const folder = await temporaryFolder();
  const dataDir = join(folder, 'pg');
  cleanServer(dataDir);
  await (await openEmbedded({ folder })).close();
  const pid = sleeper();
  await writeFile(join(dataDir, 'postmaster.pid'), `${pid}\n${dataDir}\n`);
  const server = await openEmbedded({ folder });
  expect((await readPidFile(dataDir))?.pid).not.toBe(pid);
  expect(await readFile(`/proc/${pid}/comm`, 'utf8')).toBe('sleep\n');
  await server.close();
});

test('a Postgres that holds the data folder and does not answer is refused, not replaced', async () => {
  const folder = await temporaryFolder();
  const dataDir = join(folder, 'pg');
  cleanServer(dataDir);
  const other = await temporaryFolder();
  cleanServer(join(other, 'pg'));
  await (await openEmbedded({ folder })).close();
  const running = await openEmbedded({ folder: other });
  const pid = (await readPidFile(running.dataDir))!.pid!;
  await writeFile(join(dataDir, 'postmaster.pid'), `${pid}\n${dataDir}\n`);
  const problem = openEmbedded({ folder, startTimeoutMs: 500 });
  await expect(problem).rejects.toMatchObject({ code: 'EMBEDDED_IN_USE' });
  await expect(problem).rejects.toThrow(String(pid));
  await running.close();
});
