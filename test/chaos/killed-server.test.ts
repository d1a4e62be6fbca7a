import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { cleanServer, startHolder, temporaryFolder, until } from '../../src/store/embedded/embedded.fixture.ts';
import { openEmbedded } from '../../src/store/embedded/open-embedded.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import { chaosRounds, checkLogs, seededRandom } from './chaos.fixture.ts';
import { killServer } from './kill-server.fixture.ts';
import { Producers } from './producers.fixture.ts';
import type { Said } from './said.fixture.ts';

test('a server that is killed under its clients loses no acknowledged event, and every call goes on when it is back', async () => {
  const random = seededRandom();
  const folder = await temporaryFolder();
  cleanServer(join(folder, 'pg'));
  const server = await openEmbedded({ folder });
  const said: Said[] = [];
  const options = { ...server.config, revive: () => server.ensureRunning(), retryForMs: 60_000 };
  const stores = [await PostgresStore.open({ ...options, migrate: true }), await PostgresStore.open(options)];
  const producers = stores.map((store) => new Producers(store, random, (line) => said.push(line)));
  const running = Promise.all(producers.map((each) => each.run(10)));
  for (let round = 0; round < chaosRounds(3); round++) {
    const before = said.length;
    await until(() => said.length > before + 50);
    await sleep(random() * 100);
    await killServer(server.dataDir);
    const after = said.length;
    await until(() => said.length > after + 50, 60_000);
  }
  for (const each of producers) each.stop();
  await running;
  expect(said.filter((line) => line.kind === 'refused')).toEqual([]);
  const { events } = await checkLogs(stores[0]!, said);
  expect(events).toBeGreaterThan(200);
  for (const store of stores) await store.close();
  await server.close();
}, 120_000);

test('while a database is away calls wait or fail with STORE_UNAVAILABLE, and nothing is half done when it is back', async () => {
  const random = seededRandom();
  const folder = await temporaryFolder();
  const dataDir = join(folder, 'pg');
  cleanServer(dataDir);
  // The server belongs to another process: nobody here starts it again.
  const holder = startHolder({ folder });
  const { host } = await holder.said('opened');
  const target = { host: host as string, port: 5432, user: 'runledger', database: 'runledger' };
  const patient = await PostgresStore.open({ ...target, migrate: true, retryForMs: 60_000 });
  const hasty = await PostgresStore.open({ ...target, retryForMs: 300 });
  const said: Record<'patient' | 'hasty', Said[]> = { patient: [], hasty: [] };
  const producers = [
    new Producers(patient, random, (line) => said.patient.push(line)),
    new Producers(hasty, random, (line) => said.hasty.push(line)),
  ];
  const running = Promise.all(producers.map((each) => each.run(6)));
  await until(() => said.patient.length > 50 && said.hasty.length > 50);
  await holder.kill();
  await killServer(dataDir);
  await until(() => said.hasty.some((line) => line.kind === 'refused'), 30_000);
  const answered = said.patient.filter((line) => line.kind === 'stored').length;
  await sleep(500);
  expect(said.patient.filter((line) => line.kind === 'stored')).toHaveLength(answered);
  await expect(hasty.readEvents('unknown')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true });
  const again = startHolder({ folder });
  await again.said('opened');
  const stored = (lines: Said[]) => lines.filter((line) => line.kind === 'stored').length;
  const [patientBefore, hastyBefore] = [stored(said.patient), stored(said.hasty)];
  await until(() => stored(said.patient) > patientBefore + 20 && stored(said.hasty) > hastyBefore + 20, 60_000);
  for (const each of producers) each.stop();
  await running;
  expect(said.patient.filter((line) => line.kind === 'refused')).toEqual([]);
  const codes = said.hasty.flatMap((line) => (line.kind === 'refused' ? [line.code] : []));
  expect(new Set(codes)).toEqual(new Set(['STORE_UNAVAILABLE']));
  await checkLogs(patient, [...said.patient, ...said.hasty]);
  await patient.close();
  await hasty.close();
  await again.close();
}, 120_000);
