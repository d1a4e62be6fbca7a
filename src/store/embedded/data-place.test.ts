import { chmod, chown, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findPlace, pathHash } from './data-place.ts';
import { cleanServer, isRoot, openHolder, ordinaryAccount, startHolder, temporaryFolder } from './embedded.fixture.ts';
import { openEmbedded } from './open-embedded.ts';
import { openSocketFolder } from './socket-folder.ts';

test('a folder whose path is longer than a socket path may be works', async () => {
  const folder = join(await temporaryFolder(), 'a'.repeat(100), 'b'.repeat(100));
  cleanServer(join(folder, 'pg'));
  const server = await openEmbedded({ folder });
  expect(Buffer.byteLength(server.config.host)).toBeLessThan(60);
  expect((await stat(server.config.host)).mode & 0o777).toBe(0o700);
  await server.close();
});

test('data of another major version is refused and stays as it is', async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'pg'));
  await writeFile(join(folder, 'pg', 'PG_VERSION'), '12\n');
  const problem = openEmbedded({ folder });
  await expect(problem).rejects.toMatchObject({ code: 'EMBEDDED_DATA_VERSION', details: { found: '12' } });
  expect(await readFile(join(folder, 'pg', 'PG_VERSION'), 'utf8')).toBe('12\n');
});

test('a folder of other things is not turned into a data folder', async () => {
  const folder = await temporaryFolder();
  const dataDir = join(folder, 'pg');
  await mkdir(dataDir);
  await writeFile(join(dataDir, 'letter.txt'), 'dear');
  cleanServer(dataDir);
  await expect(openEmbedded({ folder })).rejects.toMatchObject({ code: 'EMBEDDED_FOLDER_UNUSABLE' });
  expect(await readFile(join(dataDir, 'letter.txt'), 'utf8')).toBe('dear');
});

test('a file where the folder should be is an error that names it', async () => {
  const folder = join(await temporaryFolder(), 'file');
  await writeFile(folder, '');
  const systemFolders = [join(folder, 'neither')];
  await expect(openEmbedded({ folder, systemFolders })).rejects.toMatchObject({ code: 'EMBEDDED_FOLDER_UNUSABLE' });
});

test.runIf(isRoot)('root says that the folder cannot be reached, uses one that can, and finds it again', async () => {
  const folder = await temporaryFolder(0o700);
  const systemFolder = join(await temporaryFolder(), 'system');
  const dataDir = join(systemFolder, pathHash(folder), 'pg');
  cleanServer(dataDir);
  const warnings: string[] = [];
  const options = { folder, systemFolders: [systemFolder], warn: (line: string) => warnings.push(line) };
  const server = await openEmbedded(options);
  expect(server.dataDir).toBe(dataDir);
  expect(warnings.join('\n')).toContain(`cannot reach ${folder}`);
  expect(warnings.join('\n')).toContain(dataDir);
  expect((await stat(join(systemFolder, pathHash(folder)))).mode & 0o777).toBe(0o700);
  await server.close();
  // Even when the folder opens up: an empty database in the better place would look like lost data.
  await chmod(folder, 0o755);
  expect((await findPlace(options)).dataDir).toBe(dataDir);
});

test.runIf(isRoot)('root gives a folder of somebody else a server that this user can use without root', async () => {
  const account = await ordinaryAccount();
  const folder = await temporaryFolder();
  await chown(folder, account.uid, account.gid);
  const dataDir = join(folder, 'pg');
  cleanServer(dataDir);
  const root = await openEmbedded({ folder });
  expect((await stat(dataDir)).uid).toBe(account.uid);
  const user = await openHolder({ folder }, account);
  await root.close();
  await user.close();
  await (await openHolder({ folder }, account)).close();
});

test.runIf(isRoot)('an ordinary user works directly, and is told whose the data is if it is not its own', async () => {
  const account = await ordinaryAccount();
  const own = join(await temporaryFolder(0o777), 'own');
  cleanServer(join(own, 'pg'));
  const holder = await openHolder({ folder: own }, account);
  expect((await stat(join(own, 'pg'))).uid).toBe(account.uid);
  await holder.close();

  const roots = await temporaryFolder();
  cleanServer(join(roots, 'pg'));
  await (await openEmbedded({ folder: roots })).close();
  const refused = startHolder({ folder: roots }, account);
  expect(await refused.said('failed')).toMatchObject({ code: 'EMBEDDED_FOLDER_UNUSABLE' });
});

test.runIf(isRoot)('a socket folder that somebody else made first is passed over', async () => {
  const account = await ordinaryAccount();
  const home = await temporaryFolder();
  const dataDir = join(home, 'pg');
  const planted = `/tmp/runledger-${pathHash(dataDir)}`;
  await mkdir(planted, { mode: 0o700 });
  await chown(planted, account.uid, account.gid);
  const chosen = await openSocketFolder({ home, dataDir, logFile: join(home, 'pg.log'), runAs: undefined });
  onTestFinished(async () => {
    await rm(planted, { recursive: true });
    await rm(chosen, { recursive: true, force: true });
  });
  expect(chosen).toBe(`${planted}-1`);
});
