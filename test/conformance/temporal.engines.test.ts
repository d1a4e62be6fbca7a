import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TemporalOptions } from '../../src/engines/temporal/options.ts';
import { openTemporalBench } from '../../src/engines/temporal/temporal.fixture.ts';
import { memoryArtifacts } from '../../src/tools/call-context.fixture.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { oneNativeWorker } from './native-contestants.fixture.ts';
import { conformanceTools, examplePrograms, generatedPrograms, signalPrograms } from './programs.fixture.ts';
import { type Contestant, differences, logsOf } from './run-programs.fixture.ts';

const folder = mkdtempSync(join(tmpdir(), 'runledger-conformance-'));
const examples = await examplePrograms();
const programs = [...examples.programs, ...signalPrograms(), ...generatedPrograms(40)];
const tools = (): Tool[] => [...conformanceTools(folder), ...examples.tools];
let reference: Map<string, string[]>;

async function onTemporal(temporal: TemporalOptions = {}): Promise<Contestant> {
  const artifacts = memoryArtifacts();
  const bench = await openTemporalBench({ tools: tools(), artifacts, temporal });
  const { engine, plans } = bench.runtime;
  return { provider: 'temporal', engine, store: bench.store, plans, artifacts, folder, close: () => bench.close() };
}

beforeAll(async () => {
  reference = await logsOf(await oneNativeWorker({ folder, tools }), programs);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('every example, signals and generated plans leave the same log as on the native engine', () => {
  test('WE-1a WE-1b WE-1e on Temporal', async () => {
    expect(differences(reference, await logsOf(await onTemporal(), programs))).toBe('');
  }, 400_000);

  test('ES-6d WE-1a on Temporal, with a new execution of the workflow after every few events', async () => {
    const often = await onTemporal({ workflow: { maxEvents: 30 } });
    expect(differences(reference, await logsOf(often, programs))).toBe('');
  }, 400_000);
});
