import { readdir, readFile, readlink, rm } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { expect, test } from 'vitest';
import { cleanServer, openHolder, serverRuns, startHolder, temporaryFolder, until } from './embedded.fixture.ts';
import { type EmbeddedServer, openEmbedded } from './open-embedded.ts';
import { readPidFile } from './postmaster-pid.ts';
import { processState } from './process-state.ts';

async function newFolder(): Promise<{ folder: string; dataDir: string }> {
  const folder = await temporaryFolder();
  const dataDir = join(folder, 'pg');
  cleanServer(dataDir);
  return { folder, dataDir };
}

/** The kernel's numbers of the sockets that a process has open. */
async function socketInodes(pid: number): Promise<string[]> {
  const links = await Promise.all(
    (await readdir(`/proc/${pid}/fd`)).map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')),
  );
  const inodes = links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []);
  expect(inodes.length).toBeGreaterThan(0);
  return inodes;
}

async function ask(server: EmbeddedServer, text: string): Promise<unknown[]> {
  const client = new pg.Client(server.config);
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

test('two processes share one server, and the last to leave stops it', async () => {
  const { folder, dataDir } = await newFolder();
  const first = await openHolder({ folder });
  const second = await openHolder({ folder });
  expect((await second.said('opened')).pid).toBe((await first.said('opened')).pid);
  await first.close();
  expect(serverRuns(dataDir)).toBe(true);
  await second.close();
  expect(serverRuns(dataDir)).toBe(false);
});

test('a killed process leaves the server to the others, and the last of those still stops it', async () => {
  const { folder, dataDir } = await newFolder();
  const first = await openHolder({ folder });
  const second = await openHolder({ folder });
  await first.kill();
  second.tell('ensure');
  expect((await second.said('ensured')).pid).toBe((await first.said('opened')).pid);
  await second.close();
  expect(serverRuns(dataDir)).toBe(false);
});

test('committed data is there after the server and every process were killed', async () => {
  const { folder, dataDir } = await newFolder();
  const holder = await openHolder({ folder });
  const own = await openEmbedded({ folder });
  await ask(own, 'CREATE TABLE kept AS SELECT 42 AS answer');
  await own.close();
  const pid = (await holder.said('opened')).pid!;
  await holder.kill();
  process.kill(pid, 'SIGKILL');
  const again = await openEmbedded({ folder });
  expect(await ask(again, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
  expect((await readPidFile(dataDir))?.pid).not.toBe(pid);
  await again.close();
  expect(serverRuns(dataDir)).toBe(false);
});

test('a killed server is back when an open process asks for it', async () => {
  const { folder, dataDir } = await newFolder();
  const server = await openEmbedded({ folder });
  const killed = (await readPidFile(dataDir))!.pid!;
  process.kill(killed, 'SIGKILL');
  await until(async () => (await processState(killed)) !== 'postgres');
  await Promise.all([server.ensureRunning(), server.ensureRunning(), server.ensureRunning()]);
  expect(await ask(server, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  await server.close();
  expect(serverRuns(dataDir)).toBe(false);
});

test('an open process that does nothing still counts as a user of a server that was killed and came back', async () => {
  const { folder, dataDir } = await newFolder();
  const idle = await openHolder({ folder });
  const joined = () => idle.messages.filter(({ line }) => line?.includes('joined')).length;
  process.kill((await idle.said('opened')).pid!, 'SIGKILL');
  await until(() => joined() === 2);
  const other = await openEmbedded({ folder });
  await other.close();
  expect(serverRuns(dataDir)).toBe(true);
  await idle.close();
  expect(serverRuns(dataDir)).toBe(false);
});

test('users that leave at the same moment do not both leave the server to the other', async () => {
  const { folder, dataDir } = await newFolder();
  for (let i = 0; i < 8; i++) {
    const users = await Promise.all([1, 2, 3].map(() => openEmbedded({ folder })));
    await Promise.all(users.map((user) => user.close()));
    expect(serverRuns(dataDir)).toBe(false);
  }
});

test('eight processes that open a new folder at once get one server', async () => {
  const { folder, dataDir } = await newFolder();
  const holders = Array.from({ length: 8 }, () => startHolder({ folder }));
  const opened = await Promise.all(holders.map((holder) => holder.said('opened')));
  expect(new Set(opened.map(({ pid }) => pid)).size).toBe(1);
  const lines = holders.flatMap((holder) => holder.messages).filter((message) => message.type === 'log');
  expect(lines.filter(({ line }) => line?.includes('initialising'))).toHaveLength(1);
  await Promise.all(holders.map((holder) => holder.close()));
  expect(serverRuns(dataDir)).toBe(false);
});

test('a newcomer that comes while the last one leaves always gets a working server', async () => {
  const { folder, dataDir } = await newFolder();
  // Two users that come and go out of step: each opening meets the server running, stopping or gone.
  const visit = async (visits: number, pauseMs: number): Promise<void> => {
    for (let i = 0; i < visits; i++) {
      const server = await openEmbedded({ folder });
      expect(await ask(server, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
      await server.close();
      await new Promise((resolve) => setTimeout(resolve, (i * pauseMs) % 17));
    }
  };
  await Promise.all([visit(20, 5), visit(20, 7), visit(20, 3)]);
  expect(serverRuns(dataDir)).toBe(false);
});

test('Ctrl-C in the terminal of the process that started the server does not stop the server', async () => {
  const { folder } = await newFolder();
  const starter = await openHolder({ folder });
  process.kill(-starter.child.pid!, 'SIGINT');
  await starter.said('interrupted');
  starter.tell('ensure');
  expect((await starter.said('ensured')).pid).toBe((await starter.said('opened')).pid);
  expect(starter.messages.some(({ line }) => line?.includes('lost'))).toBe(false);
  await starter.close();
});

test('the server listens on no TCP port, and a caller cannot make it', async () => {
  const { folder } = await newFolder();
  const server = await openEmbedded({ folder });
  expect(await ask(server, 'SHOW listen_addresses')).toEqual([{ listen_addresses: '' }]);
  const tcp = (
    await Promise.all(['tcp', 'tcp6'].map((name) => readFile(`/proc/net/${name}`, 'utf8').catch(() => '')))
  ).join();
  for (const inode of await socketInodes((await readPidFile(server.dataDir))!.pid!))
    expect(tcp).not.toContain(` ${inode} `);
  const sockets = await ask(server, "SELECT current_setting('unix_socket_directories') AS folder");
  expect(sockets).toEqual([{ folder: server.config.host }]);
  await server.close();
  await expect(openEmbedded({ folder, settings: { listen_addresses: '*' } })).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
  });
});

test('the server is durable and checks its pages', async () => {
  const { folder } = await newFolder();
  const server = await openEmbedded({ folder });
  const rows = await ask(
    server,
    `SELECT name, setting FROM pg_settings
     WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'data_checksums', 'server_encoding') ORDER BY name`,
  );
  expect(rows).toEqual([
    { name: 'data_checksums', setting: 'on' },
    { name: 'fsync', setting: 'on' },
    { name: 'full_page_writes', setting: 'on' },
    { name: 'server_encoding', setting: 'UTF8' },
    { name: 'synchronous_commit', setting: 'on' },
  ]);
  await server.close();
});

test('a folder that was deleted under a running server begins anew', async () => {
  const { folder, dataDir } = await newFolder();
  const forgotten = await openHolder({ folder });
  const pid = (await forgotten.said('opened')).pid!;
  await forgotten.kill();
  await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
  const server = await openEmbedded({ folder });
  expect(await processState(pid)).not.toBe('postgres');
  expect((await readFile(join(dataDir, 'PG_VERSION'), 'utf8')).trim()).toBe(server.version.split('.')[0]);
  await server.close();
});

test('closing twice is harmless, and a closed server is not started again', async () => {
  const { folder, dataDir } = await newFolder();
  const server = await openEmbedded({ folder });
  await Promise.all([server.close(), server.close()]);
  await expect(server.ensureRunning()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
  expect(serverRuns(dataDir)).toBe(false);
});
