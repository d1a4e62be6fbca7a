import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { isGone, ownIdentity } from './process-identity.ts';

test('a process knows itself, in the same words every time', () => {
  expect(ownIdentity()).toEqual(ownIdentity());
  expect(ownIdentity()).toMatchObject({ pid: process.pid, hostTag: expect.stringMatching(/^[0-9a-f]{12}$/) });
});

test('a process that runs is not gone; one that ended is, and so is one whose number another process has now', async () => {
  const own = ownIdentity()!;
  expect(isGone(own)).toBe(false);
  expect(isGone({ ...own, startedAt: 'earlier' })).toBe(true);
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  await once(child, 'spawn');
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(isGone({ pid: child.pid!, startedAt: own.startedAt })).toBe(true);
});
