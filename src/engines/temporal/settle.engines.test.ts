import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EngineRunRef } from '../../contracts/values.ts';
import { ENGINE_TOOL_FORMS } from '../../testing/engine-tools.ts';
import { playbook } from '../test-bench.fixture.ts';
import { openTemporalBench, type TemporalBench } from './temporal.fixture.ts';

let bench: TemporalBench;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-temporal-settle-'));
  bench = await openTemporalBench();
});
afterAll(async () => {
  await bench?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A run that waits for a person: another one sent the same write, and gave up before the answer came. */
async function waitingRun(file: string): Promise<EngineRunRef> {
  const key = randomUUID();
  const write = (more: string): string =>
    playbook(`- {step: start, tool: {kind: blind_effect, file: ${file}, effect: {key: "${key}"}${more}}}`);
  const lost = await bench.run(write(', delay_ms: 60000, timeout: 0.5'), { tools: ENGINE_TOOL_FORMS });
  expect(lost.map(({ eventType }) => eventType)).toContain('EffectUnknown');
  const ref = await bench.start(write(''), { tools: ENGINE_TOOL_FORMS });
  for (const end = Date.now() + 20_000; ; await sleep(20)) {
    if ((await bench.store.readEvents(ref.runId, { types: ['WaitStarted'] })).length > 0) return ref;
    if (Date.now() > end) throw new Error('the step does not wait');
  }
}

const calls = (file: string): number => readFileSync(file, 'utf8').split('\n').filter(Boolean).length;

test('a write that a person settles wakes its step: with the result that it had, or to be sent again', async () => {
  const file = join(folder, 'calls');
  const { engine } = bench.runtime;
  const happened = await waitingRun(file);
  await engine.settle(happened, { answer: 'happened', result: { id: 7 }, by: 'ann' });
  expect((await bench.ended(happened)).at(-1)).toMatchObject({
    eventType: 'RunCompleted',
    payload: { result: { value: { id: 7 } } },
  });
  expect(calls(file)).toBe(1);
  const again = await waitingRun(file);
  await engine.settle(again, { answer: 'send-again' });
  expect((await bench.ended(again)).at(-1)?.eventType).toBe('RunCompleted');
  expect(calls(file)).toBe(3);
});
