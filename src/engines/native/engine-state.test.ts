import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Compile } from 'typebox/compile';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StepOutput } from '../../contracts/values.ts';
import { fold } from '../../kernel/evolve.ts';
import { initialState } from '../../kernel/state.ts';
import { stepOutput } from '../../kernel/step-output.ts';
import { toSnapshot } from '../../kernel/to-snapshot.ts';
import { ENGINE_TOOL_FORMS, engineTools } from '../../testing/engine-tools.ts';
import { artifactTool } from '../../tools/artifact/artifact-tool.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import type { LogLine } from '../../worker/ports.ts';
import { playbook } from '../test-bench.fixture.ts';
import { traces, until } from '../watching.fixture.ts';
import { type EngineBench, openEngine } from './native.fixture.ts';
import { printer } from './printer.fixture.ts';

const SECRET = 's3cr3t-that-nobody-may-see';
let bench: EngineBench;
let folder: string;
const logged: LogLine[] = [];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-state-'));
  bench = await openEngine({
    tools: [noopTool(), artifactTool(), printer, ...engineTools()],
    secrets: { resolve: async () => SECRET },
    log: (line) => logged.push(line),
  });
});
afterAll(async () => {
  await bench?.close();
  rmSync(folder, { recursive: true, force: true });
});

const tools = { tools: { ...ENGINE_TOOL_FORMS, printer: {} } };

test('WE-1c without anything that the engine keeps for itself the status is the same, and the run goes on', async () => {
  const file = join(folder, 'lost');
  const starter = await openEngine({ worker: false });
  try {
    const text = playbook(`
- step: start
  loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: probe, file: ${file}, label: "{{ n }}", delay_ms: 200}
  next: {arcs: [{step: last}]}
- {step: last, tool: {kind: noop, result: "{{ start | length }}"}}
`);
    const ref = await starter.start(text, tools);
    const first = await openEngine({ url: starter.url, tools: engineTools(), worker: { drainMs: 0 } });
    await until(() => traces(file).length >= 2);
    const before = await starter.runtime.engine.getRunStatus(ref);
    await first.close();
    for (const table of ['work', 'loops', 'workers']) {
      await starter.store.postgres.query({ text: `delete from runledger.${table}` });
    }
    const second = await openEngine({ url: starter.url, tools: [noopTool(), ...engineTools()] });
    try {
      expect(await second.runtime.engine.getRunStatus(ref)).toEqual(before);
      expect(await second.runtime.engine.repair(ref.runId)).toBeGreaterThan(0);
      const events = await second.ended(ref);
      expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: 4 } } });
      expect(await second.runtime.engine.getRunStatus(ref)).toMatchObject({ status: 'COMPLETED' });
    } finally {
      await second.close();
    }
  } finally {
    await starter.close();
  }
});

test('WE-1d no plan and no secret is in what the engine keeps: rows, receipts and events name the plan by its reference', async () => {
  const marker = `body-${randomUUID()}`;
  const file = join(folder, 'kept');
  const own = await openEngine({
    tools: [noopTool(), printer, ...engineTools()],
    secrets: { resolve: async () => SECRET },
  });
  try {
    const text = playbook(
      `
- {step: start, desc: ${marker}, tool: {kind: printer, text: "{{ keychain.api }}"}, next: {arcs: [{step: pay}]}}
- {step: pay, tool: {kind: effect, file: ${file}, delay_ms: 400, result: "{{ keychain.api }}"}}
`,
      'keychain: [{name: api, kind: credential, credential: token}]\n',
    );
    const ref = await own.start(text, tools);
    await until(() => traces(file).length === 1);
    const seen: Record<string, string> = {};
    const look = async (): Promise<void> => {
      const tables = await own.store.postgres.query<{ name: string }>({
        text: `select relname as name from pg_class c join pg_namespace n on n.oid = relnamespace
               where nspname = 'runledger' and relkind in ('r', 'p') and relname <> 'plans'`,
      });
      for (const { name } of tables) {
        const rows = await own.store.postgres.query<{ row: string }>({
          text: `select to_jsonb(t)::text as row from runledger.${name} t`,
        });
        seen[name] = `${seen[name] ?? ''}${rows.map(({ row }) => row).join('\n')}`;
      }
    };
    // While it runs and when it has ended.
    await look();
    const events = await own.ended(ref);
    await look();
    seen['log'] = JSON.stringify(events);
    expect(Object.keys(seen)).toEqual(
      expect.arrayContaining(['work', 'loops', 'receipts', 'runs', 'run_events', 'log']),
    );
    expect(seen['work']).toContain('s:pay@1');
    for (const [name, text] of Object.entries(seen)) {
      const bytes = Buffer.from(SECRET).toString('hex');
      expect([name, text.includes(marker), text.includes(SECRET), text.includes(bytes)]).toEqual([
        name,
        false,
        false,
        false,
      ]);
    }
    expect(events[0]?.payload?.['planRef']).toMatchObject({ sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
  } finally {
    await own.close();
  }
});

test('WE-2.1.3a a line that a task prints carries tenant, project, environment, run and both attempts', async () => {
  logged.length = 0;
  const events = await bench.run(playbook('- {step: start, tool: {kind: printer, text: hello}}'), tools);
  expect(logged).toEqual([
    {
      tenantId: 'acme',
      projectId: 'main',
      environmentId: 'test',
      runId: events[0]?.runId,
      stepId: 'start',
      entity: 'start/task_0:1@1',
      logicalAttemptId: 1,
      engineAttemptId: 1,
      stream: 'stdout',
      line: 'hello',
    },
  ]);
});

test('ES-2d ES-1.2f a step yields its status, what it stored outside of the log, and its error', async () => {
  const file = join(folder, 'output');
  const events = await bench.run(
    playbook(`
- step: start
  tool:
    - {name: one, kind: artifact, action: put, artifact_kind: report, data: first}
    - {name: two, kind: artifact, action: put, artifact_kind: report, data: second}
  next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: refused}]}
- step: bad
  tool:
    - {name: put, kind: artifact, action: put, artifact_kind: log-bundle, data: third}
    - {name: fail, kind: probe, file: ${file}, fail: 9}
  next: {arcs: [{step: end, when: "{{ event.name == 'step.failed' }}"}]}
- {step: refused, spec: {policy: {admit: {rules: [{else: {then: {allow: false, reason: closed}}}]}}}, tool: {kind: noop}}
- {step: end, tool: {kind: noop}}
`),
    tools,
  );
  const { steps, artifacts } = toSnapshot(fold(initialState(events[0]!.runId, { keepFinished: true }), events));
  const outputs = Object.fromEntries(steps.map((step) => [step.stepId, stepOutput(step)]));
  const check = Compile(StepOutput);
  for (const output of Object.values(outputs)) expect(check.Check(output)).toBe(true);
  expect(outputs['start']).toMatchObject({
    status: 'SUCCESS',
    artifactRefs: [
      { kind: 'report', sizeBytes: 5, sha256: expect.any(String) },
      { kind: 'report', sizeBytes: 6 },
    ],
  });
  expect(outputs['bad']).toMatchObject({
    status: 'FAILED',
    artifactRefs: [{ kind: 'log-bundle' }],
    error: { category: 'probe', code: 'PROBE', message: expect.any(String), retryable: true },
  });
  expect(outputs['refused']).toEqual({ status: 'SKIPPED', artifactRefs: [] });
  expect(outputs['end']).toEqual({ status: 'SUCCESS', artifactRefs: [] });
  expect(artifacts.map(({ kind }) => kind).sort()).toEqual(['log-bundle', 'report', 'report']);
});

test('RQ-1.2b a step shows its id, its index, its tool, and who holds it until when', async () => {
  const file = join(folder, 'rows');
  const ref = await bench.start(
    playbook(`
- {step: start, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: later}]}}
- {step: slow, tool: {kind: probe, file: ${file}, delay_ms: 600}}
- {step: later, spec: {policy: {failure: {retry: {attempts: 2, delay: 1.2}}}}, tool: {kind: probe, file: ${file}.x, fail: 1}}
`),
    tools,
  );
  await until(async () => {
    const rows = await bench.runtime.engine.listSteps(ref);
    return (
      traces(file).length === 1 &&
      rows.some(({ step_id: id, status }) => id === 'later' && status === 'failed_retryable')
    );
  });
  const rows = await bench.runtime.engine.listSteps(ref);
  expect(rows).toMatchObject([
    { step_id: 'start', step_index: 0, tool_name: 'noop', status: 'succeeded', attempt: 1 },
    {
      step_id: 'slow',
      step_index: 1,
      tool_name: 'probe',
      status: 'running',
      lease_owner: bench.runtime.worker?.owner,
      lease_expires_at: expect.stringMatching(/Z$/),
    },
    {
      step_id: 'later',
      step_index: 2,
      tool_name: 'probe',
      attempt: 2,
      next_eligible_at: expect.stringMatching(/Z$/),
      last_error: expect.stringContaining('fails'),
    },
  ]);
  expect(Date.parse(rows[1]!.lease_expires_at!)).toBeGreaterThan(Date.now());
  await bench.ended(ref);
  const ended = await bench.runtime.engine.listSteps(ref);
  expect(ended.every((row) => row.lease_owner === undefined && row.status === 'succeeded')).toBe(true);
  await expect(bench.runtime.engine.listSteps(ref, { tenantId: 'evil' })).rejects.toMatchObject({
    code: 'RUN_NOT_FOUND',
  });
});
