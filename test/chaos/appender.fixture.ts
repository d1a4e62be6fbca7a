// A process that appends until it is killed. What it was told is in its file before it sends anything more.
import { openSync, writeSync } from 'node:fs';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import type { PostgresTarget } from '../../src/store/sql/postgres.ts';
import { Producers } from './producers.fixture.ts';
import { mulberry32, type Said } from './said.fixture.ts';

const { target, seed, file } = JSON.parse(process.argv[2] ?? '{}') as {
  target: PostgresTarget;
  seed: number;
  file: string;
};
const output = openSync(file, 'a');
const say = (said: Said): void => void writeSync(output, `${JSON.stringify(said)}\n`);
const store = await PostgresStore.open(target);
process.stdout.write('ready\n');
await new Producers(store, mulberry32(seed), say).run(8);
