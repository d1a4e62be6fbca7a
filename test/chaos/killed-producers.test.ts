import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { cleanServer, temporaryFolder } from '../../src/store/embedded/embedded.fixture.ts';
import { openEmbedded } from '../../src/store/embedded/open-embedded.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import type { PostgresTarget } from '../../src/store/sql/postgres.ts';
import { chaosRounds, checkLogs, seededRandom } from './chaos.fixture.ts';
import type { Said } from './said.fixture.ts';

/** A producer process, and the file in which it says what it was told. */
class Appender {
  readonly ready: Promise<void>;
  readonly #file: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(target: PostgresTarget, seed: number, file: string) {
    this.#file = file;
    const script = fileURLToPath(new URL('./appender.fixture.ts', import.meta.url));
    this.#child = spawn(process.execPath, ['--import', 'tsx', script, JSON.stringify({ target, seed, file })], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#ended = once(this.#child, 'exit');
    const early = this.#ended.then(() => Promise.reject(new Error('the producer ended before it was ready')));
    this.ready = Promise.race([once(this.#child.stdout!, 'data'), early]).then(() => {});
    early.catch(() => {});
    onTestFinished(() => void this.#child.kill('SIGKILL'));
  }

  async kill(): Promise<Said[]> {
    expect(this.#child.exitCode, 'the producer ended by itself').toBeNull();
    this.#child.kill('SIGKILL');
    await this.#ended;
    const lines = readFileSync(this.#file, 'utf8').split('\n');
    // Behind the last line break is what the kill cut off: it was never said.
    return lines.slice(0, -1).map((line) => JSON.parse(line) as Said);
  }
}

test('producers that are killed at any moment lose no acknowledged event, double none and leave no call half done', async () => {
  const random = seededRandom();
  const folder = await temporaryFolder();
  cleanServer(join(folder, 'pg'));
  const server = await openEmbedded({ folder });
  const store = await PostgresStore.open({ ...server.config, migrate: true });
  const said: Said[] = [];
  let started = 0;
  const start = () => new Appender(server.config, Math.floor(random() * 1e9), join(folder, `said-${++started}`));
  const appenders = [start(), start(), start()];
  await Promise.all(appenders.map((appender) => appender.ready));
  for (let round = 0; round < chaosRounds(6); round++) {
    const at = round % appenders.length;
    await appenders[at]!.ready;
    await sleep(random() * 250);
    said.push(...(await appenders[at]!.kill()));
    appenders[at] = start();
  }
  await Promise.all(appenders.map((appender) => appender.ready));
  await sleep(random() * 250);
  for (const appender of appenders) said.push(...(await appender.kill()));
  const { runs, events } = await checkLogs(store, said);
  const acknowledged = said.reduce((sum, line) => sum + (line.kind === 'stored' ? line.events.length : 0), 0);
  expect(runs).toBeGreaterThan(3);
  expect(acknowledged).toBeGreaterThan(100);
  expect(events).toBeGreaterThanOrEqual(acknowledged);
  expect(said.filter((line) => line.kind === 'refused')).toEqual([]);
  await store.close();
  await server.close();
}, 120_000);
