import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type EngineBench, openEngine } from '../../src/engines/native/native.fixture.ts';
import { playbook } from '../../src/engines/test-bench.fixture.ts';
import { ENGINE_TOOL_FORMS, engineTools } from '../../src/testing/engine-tools.ts';
import { noopTool } from '../../src/tools/noop/noop-tool.ts';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { LossyProxy } from './lossy-proxy.fixture.ts';

let folder: string;
let database: TestDatabase;
let proxy: LossyProxy;
let bench: EngineBench;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-lost-'));
  database = await createTestDatabase();
  proxy = new LossyProxy(database.url);
  bench = await openEngine({
    url: await proxy.listen(database.url),
    tools: [noopTool(), ...engineTools()],
    // Who does not hear of the lease that it was given waits for its end.
    leaseMs: 1500,
  });
});
afterAll(async () => {
  await bench.close();
  await proxy.close();
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

// Units that only read end by the short ways; those with a write end by commit_work.
const scenario = (file: string): string =>
  playbook(`
- {step: look, tool: {kind: probe, file: ${file}.reads}, next: {arcs: [{step: each}]}}
- step: each
  loop: {in: "{{ [0, 1, 2, 3, 4, 5] }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: probe, file: ${file}.reads}
  next: {arcs: [{step: write}]}
- step: write
  loop: {in: "{{ [0, 1, 2, 3] }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: effect, file: ${file}, label: "item-{{ iter.n }}", spec: {timeout: 2}}
  next: {arcs: [{step: last}]}
- {step: last, tool: {kind: probe, file: ${file}.reads}}
`);

test.each(['start_one', 'commit_work', 'hand_over', 'end_iterations'])(
  'RQ-3.2b RQ-3.1a a run whose worker loses an answer of %s ends, and every effect happened once',
  async (lost) => {
    // Without the name of the function: the plan that names the file goes to the database too.
    const file = join(folder, `effects-${randomUUID()}`);
    const before = proxy.cuts;
    proxy.loseAnswerTo = lost;
    const events = await bench.run(scenario(file), { tools: ENGINE_TOOL_FORMS });
    expect(proxy.cuts).toBeGreaterThan(before);
    expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted' });
    const happened = readFileSync(file, 'utf8').split('\n').filter(Boolean);
    expect(happened.map((text) => text.split(' ')[0]).sort()).toEqual(['item-0', 'item-1', 'item-2', 'item-3']);
  },
  60_000,
);
