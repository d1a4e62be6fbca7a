import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Type from 'typebox';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { compileSync } from '../compiler/compile.ts';
import { defineTool, toolFailure } from '../tools/define-tool.ts';
import { createRuntime, type Runtime, type RuntimeOptions } from './create-runtime.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let database: TestDatabase;
let folder: string;
let runtime: Runtime;
const gate = new Map<string, () => void>();
const said: string[] = [];

/** Waits until the test opens the gate of that label. */
const hold = defineTool({
  kind: 'hold',
  input: Type.Object({ label: Type.String() }),
  effect: 'compute',
  run({ label }, { log, signal }) {
    log('log', `holding ${label}`);
    return new Promise((resolve, reject) => {
      gate.set(label, () => resolve({ label }));
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  },
});
const refuse = defineTool({
  kind: 'refuse',
  input: Type.Object({}),
  effect: 'compute',
  run() {
    throw toolFailure({ code: 'NOT_TODAY', message: 'come back tomorrow' });
  },
});

const open = (options: RuntimeOptions = {}): Promise<Runtime> =>
  createRuntime({ databaseUrl: database.url, folder, tools: [hold, refuse], ...options });
const playbook = (workflow: string, name = 'library'): { text: string } => ({
  text: `apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: ${name}, version: "1"}\nworkload: {n: 1}\nworkflow:\n${workflow}`,
});
const SUM = playbook(`
- {step: start, tool: {kind: noop, result: "{{ workload.n + 1 }}"}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: noop, result: {sum: "{{ start }}"}}}`);
const HELD = (label: string): { text: string } =>
  playbook(`
- {step: start, tool: {kind: hold, label: ${label}}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: noop, result: "{{ start.label }}"}}`);
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 60_000; !(await holds()); await new Promise((resolve) => setTimeout(resolve, 10)))
    if (Date.now() > end) throw new Error('it did not happen');
}
const opened = async (label: string): Promise<void> => {
  await until(() => gate.has(label));
  gate.get(label)?.();
};

beforeAll(async () => {
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-runtime-'));
  runtime = await open({ onLog: ({ line }) => said.push(line) });
});
afterAll(async () => {
  await runtime?.close({ drainMs: 0 });
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

describe('createRuntime', () => {
  test('runs a playbook from text, from a file and from a plan', async () => {
    expect(await runtime.run(SUM)).toEqual({ sum: 2 });
    const file = join(folder, 'sum.yaml');
    await writeFile(file, SUM.text);
    expect(await runtime.run(file, { input: { n: 41 } })).toEqual({ sum: 42 });
    expect(await runtime.run({ file })).toEqual({ sum: 2 });
    const compiled = compileSync({ text: SUM.text, file: 'sum.yaml' });
    if (!compiled.ok) throw new Error('it must compile');
    expect(await runtime.run({ plan: compiled.plan })).toEqual({ sum: 2 });
    // What was compiled before is the same plan, not another of the same name.
    const { runs } = await runtime.list({ limit: 2, planId: 'library' });
    expect(runs.map(({ status, planVersion }) => [status, planVersion])).toEqual([
      ['COMPLETED', '1'],
      ['COMPLETED', '1'],
    ]);
  });

  test('a plan brings the plans of its sub-playbooks along', async () => {
    const child = playbook('- {step: start, tool: {kind: noop, result: {of: child}}}', 'child');
    const parent = playbook('- {step: start, tool: {kind: playbook, path: child}}', 'parent');
    const compiled = compileSync(
      { text: parent.text, file: 'parent.yaml' },
      { resolve: () => ({ text: child.text, file: 'child.yaml' }) },
    );
    if (!compiled.ok) throw new Error('it must compile');
    const children = [...compiled.children.values()].map(({ plan }) => plan);
    expect(await runtime.run({ plan: compiled.plan, children })).toMatchObject({ of: 'child', status: 'COMPLETED' });
  });

  test('a run is followed to its end, and its state and results are read', async () => {
    const run = await runtime.start(HELD('followed'));
    const types: string[] = [];
    for await (const event of run.events()) {
      types.push(event.eventType);
      if (event.eventType === 'TaskStarted' && event.stepId === 'start') await opened('followed');
    }
    expect(types[0]).toBe('PlaybookExecutionRequested');
    expect(types.at(-1)).toBe('RunCompleted');
    expect(await run.ended()).toEqual({ runId: run.runId, status: 'COMPLETED', result: 'followed' });
    expect(await run.result('start')).toEqual({ label: 'followed' });
    expect(await run.status()).toMatchObject({ status: 'COMPLETED', steps: [{ stepId: 'start' }, { stepId: 'end' }] });
    expect(await run.status({ asOf: 3 })).toMatchObject({ status: 'RUNNING', lastEventSeq: 3 });
    await expect(run.result('strat')).rejects.toMatchObject({
      code: 'RESULT_NOT_FOUND',
      message: expect.stringContaining("did you mean 'start'?"),
    });
    expect(said).toContain('holding followed');
    // Of a run that has ended, the events end too.
    let again = 0;
    for await (const event of (await runtime.get(run.runId)).events({ afterSeq: 2 })) again = event.runSeq;
    expect(again).toBe(types.length);
    for await (const _ of run.events({ afterSeq: again })) throw new Error('there is nothing after the end');
  });

  test('a failure is a value of ended() and an error of result()', async () => {
    const run = await runtime.start(playbook('- {step: start, tool: {kind: refuse}}'));
    expect(await run.ended()).toMatchObject({
      status: 'FAILED',
      error: { stepId: 'start', code: 'NOT_TODAY', message: 'come back tomorrow' },
    });
    await expect(run.result()).rejects.toMatchObject({
      code: 'RUN_FAILED',
      message: expect.stringContaining('NOT_TODAY in step start: come back tomorrow'),
      details: { error: { code: 'NOT_TODAY' } },
    });
    await expect(runtime.retry(run.runId, { from: 5 as never })).rejects.toMatchObject({ code: 'USAGE' });
    const retried = await runtime.retry(run.runId);
    expect((await retried.ended()).status).toBe('FAILED');
    expect(retried.runId).not.toBe(run.runId);
  });

  test('a run is paused, resumed and cancelled, and a signal that does not fit is said', async () => {
    const run = await runtime.start(HELD('paused'));
    await until(() => gate.has('paused'));
    await run.pause({ reason: 'lunch', by: 'ada' });
    await opened('paused');
    await until(async () => (await run.status()).steps[0]?.status === 'SUCCESS');
    expect(await run.status()).toMatchObject({ status: 'PAUSED', steps: [{ stepId: 'start' }] });
    expect(await run.signal('PAUSE')).toMatchObject({ accepted: false });
    await expect(run.pause()).rejects.toMatchObject({ code: 'SIGNAL_REJECTED' });
    await run.resume();
    expect(await run.result()).toBe('paused');
    await expect(run.cancel()).rejects.toMatchObject({ code: 'SIGNAL_REJECTED' });

    const other = await runtime.start(HELD('cancelled'));
    await until(() => gate.has('cancelled'));
    await other.cancel({ signalId: 'once' });
    expect(await other.signal('CANCEL', { signalId: 'once' })).toMatchObject({ accepted: true });
    await expect(other.result()).rejects.toMatchObject({ code: 'CANCELLED' });
  });

  test('whoever stops waiting leaves the run alone', async () => {
    const run = await runtime.start(HELD('waited'));
    const stop = new AbortController();
    const waiting = run.ended({ signal: stop.signal });
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    await opened('waited');
    expect(await run.result()).toBe('waited');
  });

  test('fifty runs are waited for at once without a warning', async () => {
    const warnings: string[] = [];
    const listen = (warning: Error): void => void warnings.push(warning.message);
    process.on('warning', listen);
    const results = await Promise.all(Array.from({ length: 50 }, (_, n) => runtime.run(SUM, { input: { n } })));
    process.off('warning', listen);
    expect(results).toEqual(Array.from({ length: 50 }, (_, n) => ({ sum: n + 1 })));
    expect(warnings).toEqual([]);
  });

  test('the same request twice is one run', async () => {
    const first = await runtime.start(SUM, { requestId: 'order-1' });
    const second = await runtime.start(SUM, { requestId: 'order-1' });
    expect(second.runId).toBe(first.runId);
    await first.ended();
  });

  test('runs are listed in pages', async () => {
    const names = ['page', 'page', 'page'];
    for (const name of names) await runtime.run(playbook('- {step: start, tool: {kind: noop}}', name));
    const first = await runtime.list({ planId: 'page', limit: 2 });
    expect(first.runs).toHaveLength(2);
    const second = await runtime.list({ planId: 'page', limit: 2, before: first.next! });
    expect(second.runs).toHaveLength(1);
    expect(second).not.toHaveProperty('next');
    expect(first.runs[0]).not.toHaveProperty('runKey');
    await expect(runtime.list({ before: 'x' })).rejects.toMatchObject({ code: 'USAGE' });
  });

  test('a runtime without a worker starts a run that another one works on', async () => {
    const starter = await open({ work: false, tenant: 'elsewhere' });
    try {
      const run = await starter.start(SUM);
      expect(await run.result()).toEqual({ sum: 2 });
      expect((await starter.list({ limit: 1 })).runs[0]).toMatchObject({ tenantId: 'elsewhere' });
    } finally {
      await starter.close();
    }
  });

  test('what a closed runtime left open is taken up by the next one', async () => {
    const own = await createTestDatabase();
    try {
      const first = await createRuntime({ databaseUrl: own.url, folder, tools: [hold] });
      const { runId } = await first.start(HELD('left'));
      await until(() => gate.has('left'));
      gate.delete('left');
      const run = await first.get(runId);
      const ends: Promise<unknown>[] = [run.ended(), run.result()];
      let seen = 0;
      const follow = async (): Promise<void> => {
        for await (const event of run.events()) seen = event.runSeq;
      };
      ends.push(follow());
      for (const end of ends) end.catch(() => {});
      await until(() => seen > 3);
      await first.close({ drainMs: 0 });
      // Whoever waits is told, and neither waits for ever nor takes this for the end of the run.
      for (const end of ends) await expect(end).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
      await expect(first.start(SUM)).rejects.toMatchObject({ code: 'USAGE' });
      const second = await createRuntime({ databaseUrl: own.url, folder, tools: [hold] });
      try {
        await opened('left');
        expect(await (await second.get(runId)).result()).toBe('left');
      } finally {
        await second.close();
      }
    } finally {
      await own.drop();
    }
  });
});

describe('bad input is refused with a code, and nothing is started', () => {
  test('a broken playbook', async () => {
    const before = (await runtime.list({ limit: 1 })).runs[0]?.runId;
    const broken = playbook('- {step: start, tool: {kind: nop}}');
    await expect(runtime.start(broken)).rejects.toMatchObject({
      code: 'PLAYBOOK_INVALID',
      message: expect.stringMatching(/playbook\.yaml:6:\d+ UNKNOWN_TOOL there is no tool 'nop'; did you mean 'noop'\?/),
      details: { problems: [{ code: 'UNKNOWN_TOOL', line: 6 }] },
    });
    expect((await runtime.list({ limit: 1 })).runs[0]?.runId).toBe(before);
  });

  test('a file that is not there, a plan that was changed, a run that is not there', async () => {
    await expect(runtime.start('nowhere.yaml')).rejects.toMatchObject({ code: 'FILE_NOT_READABLE' });
    const compiled = compileSync({ text: SUM.text, file: 'sum.yaml' });
    if (!compiled.ok) throw new Error('it must compile');
    const changed = { ...compiled.plan, surprise: true } as typeof compiled.plan;
    await expect(runtime.start({ plan: changed })).rejects.toMatchObject({ code: 'INVALID_STEP_SCHEMA' });
    await expect(runtime.get('no-such-run')).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
    await expect(runtime.retry('no-such-run')).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
  });

  test('a setting that does not exist, a configuration file that does not exist, a database that is down', async () => {
    const wrong = { databaseURL: 'x' } as RuntimeOptions;
    await expect(createRuntime(wrong)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining("createRuntime: there is no setting 'databaseURL'"),
    });
    await expect(createRuntime({ configFile: 'nowhere.ts' })).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
    const down = { databaseUrl: 'postgres://127.0.0.1:1/none', folder };
    await expect(createRuntime(down)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
  });

  test('a database without the schema, unless it may be migrated', async () => {
    const empty = await createTestDatabase({ empty: true });
    try {
      const options = { databaseUrl: empty.url, folder };
      await expect(createRuntime(options)).rejects.toMatchObject({ code: 'STORE_SCHEMA_TOO_OLD' });
      const migrated = await createRuntime({ ...options, migrate: true });
      expect(await migrated.run(SUM)).toEqual({ sum: 2 });
      await migrated.close();
    } finally {
      await empty.drop();
    }
  });
});
