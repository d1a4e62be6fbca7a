import { spawn } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { builtCli, type CliEnd, ROOT, runCli } from './cli.fixture.ts';
import { smallDisk } from './small-disk.fixture.ts';

vi.setConfig({ testTimeout: 180_000 });

const HELLO = join(ROOT, 'examples/hello.yaml');
let home: string;
beforeAll(async () => {
  builtCli();
  home = await mkdtemp(join(tmpdir(), 'runledger-ground-'));
  // Root's server runs as another account, to which a temporary folder is closed.
  await chmod(home, 0o755);
});
afterAll(() => rm(home, { recursive: true, force: true }));

const jsonOf = <T = Record<string, unknown>>({ stdout }: CliEnd): T => JSON.parse(stdout);
async function folder(name: string): Promise<string> {
  const path = join(home, name);
  await mkdir(path);
  return path;
}

test('a disk without room for the database is said so, leaves nothing behind, and with room the same command works', async () => {
  const disk = smallDisk(12);
  console.log(`The disk is small by means of ${disk.means}.`);
  try {
    const full = await runCli(['run', HELLO], { cwd: disk.folder, prefix: disk.prefix });
    expect(full.stderr).toContain('error DISK_FULL');
    expect(full.stderr).toContain('next: Free some space');
    expect(full.stdout).toBe('');
    expect(full.code).toBe(74);
    expect(await readdir(join(disk.folder, '.runledger'))).not.toContain('pg');
    disk.grow();
    const { code, stdout } = await runCli(['run', HELLO, '--json'], { cwd: disk.folder, prefix: disk.prefix });
    expect([code, JSON.parse(stdout).status]).toEqual([0, 'COMPLETED']);
  } finally {
    disk.remove();
  }
});

test('a disk that gets full loses nothing: commands say so, and everything is there when there is room again', async () => {
  const disk = smallDisk(100);
  console.log(`The disk is small by means of ${disk.means}.`);
  const cli = (args: readonly string[]): Promise<CliEnd> => runCli(args, { cwd: disk.folder, prefix: disk.prefix });
  try {
    if (disk.means === 'a small tmpfs') {
      const { runId } = jsonOf<{ runId: string }>(await cli(['run', HELLO, '--json']));
      disk.fill();
      for (const args of [['run', HELLO], ['runs'], ['init', 'here']]) {
        const full = await cli(args);
        expect(full.stderr, args.join(' ')).toContain('error DISK_FULL');
        expect(full.code).toBe(74);
      }
      disk.empty();
      expect(await cli(['verify', runId])).toMatchObject({ code: 0, stderr: '' });
      expect(jsonOf(await cli(['run', HELLO, '--json']))).toMatchObject({ status: 'COMPLETED' });
      expect(await cli(['init', 'here'])).toMatchObject({ code: 0 });
    } else {
      // A limit of the size of files cannot be reached by many small ones: `init` meets one that forbids every byte.
      const none = ['bash', '-c', 'ulimit -f 0; exec "$0" "$@"'];
      const full = await runCli(['init', 'here'], { cwd: disk.folder, prefix: none });
      expect(full.stderr).toContain('error DISK_FULL');
      expect(full.code).toBe(74);
    }
  } finally {
    disk.remove();
  }
});

test('a folder that cannot be written is refused with a code, and nothing is made elsewhere', async () => {
  const args = ['run', HELLO, '--folder', '/proc/runledger-here'];
  const refused = await runCli(args, { cwd: home });
  expect(refused.stderr).toContain('error EMBEDDED_FOLDER_UNUSABLE');
  expect(refused.code).toBe(69);
  const init = await runCli(['init', '/proc/runledger-here'], { cwd: home });
  expect(init.stderr).toContain('error FILE_NOT_WRITABLE');
  expect(init.code).toBe(73);
});

test('a folder that is closed to an ordinary account is refused with a code', async () => {
  const closed = await folder('closed');
  await chmod(closed, 0o555);
  // Root may write everywhere, so it asks as somebody else.
  const isRoot = process.getuid?.() === 0;
  const as = isRoot ? { uid: 65_534, gid: 65_534 } : {};
  for (const [args, code, exit] of [
    [['run', HELLO], 'EMBEDDED_FOLDER_UNUSABLE', 69],
    [['runs'], 'EMBEDDED_FOLDER_UNUSABLE', 69],
    [['init', 'x'], 'FILE_NOT_WRITABLE', 73],
  ] as const) {
    const refused = await runCli(args, { cwd: closed, ...as });
    expect(refused.stderr, args.join(' ')).toContain(`error ${code}`);
    expect(refused.code).toBe(exit);
  }
  expect(await readdir(closed)).toEqual([]);
  await chmod(closed, 0o755);
});

test('commands that begin at the same moment in a new folder share one database, and none loses its run', async () => {
  const cwd = await folder('at-once');
  const ends = await Promise.all(
    Array.from({ length: 4 }, (_, i) => runCli(['run', HELLO, '--set', `name=n${i}`, '--json'], { cwd })),
  );
  for (const end of ends) expect(end).toMatchObject({ code: 0, stderr: '' });
  expect(ends.map((end) => jsonOf(end)['result']).sort()).toEqual([0, 1, 2, 3].map((i) => `HELLO, N${i}!`));
  const { runs } = jsonOf<{ runs: unknown[] }>(await runCli(['runs', '--json'], { cwd }));
  expect(runs).toHaveLength(4);
  const inits = await Promise.all([1, 2, 3].map(() => runCli(['init', 'new', '--json'], { cwd })));
  for (const end of inits) expect([0, 73]).toContain(end.code);
  expect(inits.some(({ code }) => code === 0)).toBe(true);
  expect(jsonOf(await runCli(['init', 'new', '--json'], { cwd }))).toMatchObject({ written: [] });
});

const KILLED: readonly (readonly string[])[] = [
  ['run', HELLO],
  ['runs'],
  ['status', 'latest'],
  ['events', 'latest'],
  ['logs', 'latest'],
  ['result', 'latest'],
  ['replay', 'latest'],
  ['verify', 'latest'],
  ['diff', 'latest', 'latest'],
  ['retry', 'latest', '--from', 'start'],
  ['run', HELLO, '--detach'],
  ['pause', 'latest'],
  ['resume', 'latest'],
  ['cancel', 'latest'],
  ['skip-step', 'latest', 'shout'],
  ['migrate'],
  ['doctor', '--fix'],
  ['worker'],
  ['compile', HELLO],
  ['init', 'new'],
];

test('a command that is killed at any moment loses nothing: chains hold, every run can be ended, the next command works', async () => {
  const cwd = await folder('killed');
  await runCli(['run', HELLO], { cwd });
  for (const [i, args] of KILLED.entries()) {
    // From before the first statement to after the last, a little later with each command and round.
    for (const afterMs of [60 + i * 7, 250 + i * 13, 450 + i * 17]) await killedAfter(args, cwd, afterMs);
  }
  const { runs } = jsonOf<{ runs: { runId: string; status: string }[] }>(
    await runCli(['runs', '--limit', '200', '--json'], { cwd }),
  );
  expect(runs.length).toBeGreaterThan(0);
  for (const { runId, status } of runs) {
    expect(await runCli(['verify', runId], { cwd })).toMatchObject({ code: 0 });
    if (['COMPLETED', 'FAILED', 'CANCELLED'].includes(status)) continue;
    // One whose cancellation was on its way is cancelled.
    expect([0, 130]).toContain((await runCli(['resume', runId], { cwd })).code);
  }
  expect(await runCli(['doctor', '--fix'], { cwd })).toMatchObject({ code: 0 });
  expect(await runCli(['init', 'new'], { cwd })).toMatchObject({ code: 0 });
  expect(jsonOf(await runCli(['run', HELLO, '--json'], { cwd }))).toMatchObject({ status: 'COMPLETED' });
});

/** Runs a command and kills it, and it alone, after that time, as nothing can prevent. */
function killedAfter(args: readonly string[], cwd: string, afterMs: number): Promise<void> {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, [builtCli(), ...args], {
    cwd,
    env: { PATH, HOME, LANG: 'C.UTF-8' },
    stdio: 'ignore',
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), afterMs);
  return new Promise((done) => {
    child.on('exit', () => {
      clearTimeout(timer);
      done();
    });
  });
}
