// Records what the workflow of Temporal does, for every later version to be replayed: test/histories/NAME-EXECUTION.json.
//   node --import tsx scripts/record-histories.ts PREFIX
// A recorded history is never edited or replaced: it stands for runs that are under way while a new version is deployed.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEmbedded } from '../src/store/embedded/open-embedded.ts';
import { PostgresStore } from '../src/store/postgres-store.ts';
import { startTemporal } from '../test/servers/temporal.ts';
import { recordHistories } from '../test/temporal/histories.fixture.ts';
import { historyToJson } from '../test/temporal/history-json.ts';

const [prefix] = process.argv.slice(2);
if (!prefix) throw new Error('usage: node --import tsx scripts/record-histories.ts PREFIX');
const target = join(import.meta.dirname, '../test/histories');
mkdirSync(target, { recursive: true });
const folder = mkdtempSync(join(tmpdir(), 'runledger-record-'));
const postgres = await openEmbedded({ folder });
const server = await startTemporal();
try {
  const { host, user, database } = postgres.config;
  const url = `postgresql://${user}@localhost:5432/${database}?host=${encodeURIComponent(String(host))}`;
  await (await PostgresStore.open({ url, migrate: true })).close();
  for (const { name, history } of await recordHistories(server, url)) {
    const file = join(target, `${prefix}-${name}.json`);
    if (existsSync(file)) throw new Error(`${file} is there already; choose another prefix`);
    writeFileSync(file, `${historyToJson(history)}\n`);
    console.log(`${file} ${history.events?.length} events`);
  }
} finally {
  await server.stop();
  await postgres.close();
  rmSync(folder, { recursive: true, force: true });
}
