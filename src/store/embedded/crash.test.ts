import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect, test } from 'vitest';
import { cleanServer, serverRuns, startHolder, temporaryFolder, until } from './embedded.fixture.ts';
import { openEmbedded } from './open-embedded.ts';

test('a process that is killed in the middle of initdb leaves nothing that the next one could take for data', async () => {
  const folder = await temporaryFolder();
  cleanServer(join(folder, 'pg'));
  const temporary = async (): Promise<string[]> => (await readdir(folder)).filter((name) => name.startsWith('pg.new-'));
  for (const delay of [0, 150]) {
    const holder = startHolder({ folder });
    await until(async () => (await temporary()).length > 0);
    await sleep(delay);
    await holder.kill();
    expect(await readdir(folder)).not.toContain('pg');
  }
  const server = await openEmbedded({ folder });
  await expectAnswer(server.config);
  expect(await temporary()).toEqual([]);
  await server.close();
});

test('processes killed at any moment of opening leave a folder that opens', async () => {
  const folder = await temporaryFolder();
  const dataDir = join(folder, 'pg');
  cleanServer(dataDir);
  await (await openEmbedded({ folder })).close();
  // From the first line that the process says, in steps across taking the lock, starting and joining.
  for (let delay = 0; delay < 64; delay += 8) {
    const holder = startHolder({ folder });
    await until(() => serverRuns(dataDir) || holder.messages.length > 0);
    await sleep(delay);
    await holder.kill();
    const server = await openEmbedded({ folder });
    await expectAnswer(server.config);
    await server.close();
    expect(serverRuns(dataDir)).toBe(false);
  }
});

async function expectAnswer(config: pg.ClientConfig): Promise<void> {
  const client = new pg.Client(config);
  await client.connect();
  try {
    expect((await client.query('SELECT current_database() AS name')).rows).toEqual([{ name: 'runledger' }]);
  } finally {
    await client.end();
  }
}
