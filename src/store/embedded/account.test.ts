import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { chooseAccount, parsePasswd } from './account.ts';
import { temporaryFolder } from './embedded.fixture.ts';

async function choose(lines: string[], owners: string[] = []) {
  const file = join(await temporaryFolder(), 'passwd');
  await writeFile(file, lines.join('\n'));
  return chooseAccount(owners, file, 0);
}

const ROOT = 'root:x:0:0:root:/root:/bin/sh';
const DAEMON = 'daemon:x:1:1::/:/bin/false';
const NOBODY = 'nobody:x:65534:65534::/:/bin/false';
const POSTGRES = 'postgres:x:70:71::/:/bin/sh';

test('root hands the server to an account made for servers, and to nobody only with a warning', async () => {
  expect(await choose([ROOT, NOBODY, DAEMON, POSTGRES])).toEqual({
    runAs: { name: 'postgres', uid: 70, gid: 71 },
    warning: undefined,
  });
  expect((await choose([ROOT, NOBODY, DAEMON])).runAs?.name).toBe('daemon');
  const last = await choose([ROOT, 'www-data:x:33:33::/:/bin/false', NOBODY]);
  expect(last.runAs?.name).toBe('nobody');
  expect(last.warning).toContain('nobody');
});

test('root does not run the server where there is no account for it, nor under a second name of root', async () => {
  await expect(choose([ROOT, 'postgres:x:0:0::/:/bin/sh'])).rejects.toMatchObject({ code: 'EMBEDDED_UNAVAILABLE' });
});

test('the owner of the folder runs its server, if that owner has a passwd entry and is not root', async () => {
  const folder = await temporaryFolder();
  const uid = process.getuid!();
  const entry = `owner:x:${uid}:${uid}::/:/bin/sh`;
  const owned = await choose([ROOT, entry, POSTGRES], [folder]);
  expect(owned.runAs?.name).toBe(uid === 0 ? 'postgres' : 'owner');
  expect((await choose([ROOT, POSTGRES], [folder])).runAs?.name).toBe('postgres');
});

test('an ordinary user runs the server itself', async () => {
  expect(await chooseAccount([], '/nonexistent', 1000)).toEqual({ runAs: undefined, warning: undefined });
});

test('lines of a passwd file that are no accounts are passed over', () => {
  expect(parsePasswd('# comment\n+::::::\n\nbroken:x:abc:1\nok:x:5:6::/:/bin/sh\n')).toEqual([
    { name: 'ok', uid: 5, gid: 6 },
  ]);
});
