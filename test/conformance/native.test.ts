import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Tool } from '../../src/tools/tool.ts';
import { oneNativeWorker, severalNativeWorkers } from './native-contestants.fixture.ts';
import { conformanceTools, examplePrograms, generatedPrograms, signalPrograms } from './programs.fixture.ts';
import { differences, logsOf } from './run-programs.fixture.ts';

const folder = mkdtempSync(join(tmpdir(), 'runledger-conformance-'));
const examples = await examplePrograms();
const programs = [...examples.programs, ...signalPrograms(), ...generatedPrograms(24)];
const tools = (): Tool[] => [...conformanceTools(folder), ...examples.tools];
let reference: Map<string, string[]>;

beforeAll(async () => {
  reference = await logsOf(await oneNativeWorker({ folder, tools }), programs);
}, 400_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('every example, signals and generated plans leave the same log', () => {
  test.each([
    ['one worker that waits for each commit', () => oneNativeWorker({ folder, tools, runAhead: false })],
    ['three workers', () => severalNativeWorkers({ folder, tools })],
  ])(
    'WE-1a on %s as on one that runs ahead',
    async (_title, open) => {
      expect(differences(reference, await logsOf(await open(), programs))).toBe('');
    },
    400_000,
  );
});
