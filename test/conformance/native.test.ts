import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEngine } from '../../src/engines/native/native.fixture.ts';
import { createNativeRuntime } from '../../src/runtime/create-native-runtime.ts';
import { memoryArtifacts } from '../../src/tools/call-context.fixture.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { diffLines } from './diff-lines.ts';
import { conformanceTools, examplePrograms, generatedPrograms, signalPrograms } from './programs.fixture.ts';
import { type Contestant, runPrograms } from './run-programs.fixture.ts';

const GENERATED = 24;

const folder = mkdtempSync(join(tmpdir(), 'runledger-conformance-'));
const examples = await examplePrograms();
const programs = [...examples.programs, ...signalPrograms(), ...generatedPrograms(GENERATED)];
const tools = (): Tool[] => [...conformanceTools(folder), ...examples.tools];
let reference: Map<string, string[]>;

/** One process that runs ahead; the others are compared with it. */
async function oneWorker(options: { runAhead?: boolean } = {}): Promise<Contestant> {
  const artifacts = memoryArtifacts();
  const bench = await openEngine({ tools: tools(), artifacts, ...options });
  const { engine, plans } = bench.runtime;
  return { provider: 'native', engine, store: bench.store, plans, artifacts, folder, close: () => bench.close() };
}

/** Workers that take few units each, so that the branches of a run are spread over them. */
async function severalWorkers(): Promise<Contestant> {
  const artifacts = memoryArtifacts();
  const bench = await openEngine({ tools: tools(), artifacts, worker: false });
  const { store } = bench;
  const workers = [1, 2, 3].map(() =>
    createNativeRuntime({ store, artifacts, tools: tools(), worker: { concurrency: 2, pollMs: 50 } }),
  );
  const { engine, plans } = bench.runtime;
  const close = async (): Promise<void> => {
    await Promise.all(workers.map((worker) => worker.close()));
    await bench.close();
  };
  return { provider: 'native', engine, store, plans, artifacts, folder, close };
}

async function logsOf(open: () => Promise<Contestant>): Promise<Map<string, string[]>> {
  const on = await open();
  try {
    return await runPrograms(on, programs);
  } finally {
    await on.close();
  }
}

beforeAll(async () => {
  reference = await logsOf(oneWorker);
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('every example, signals and generated plans leave the same log', () => {
  test.each([
    ['one worker that waits for each commit', () => oneWorker({ runAhead: false })],
    ['three workers', severalWorkers],
  ])(
    'WE-1a on %s as on one that runs ahead',
    async (_title, open) => {
      const logs = await logsOf(open);
      const differences = programs
        .map(({ title }) => ({ title, diff: diffLines(reference.get(title)!, logs.get(title)!) }))
        .filter(({ diff }) => diff !== '');
      expect(differences.map(({ title, diff }) => `${title}\n${diff}`).join('\n\n')).toBe('');
    },
    120_000,
  );
});
