import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { compileSync } from '../../src/compiler/compile.ts';
import { isTerminal } from '../../src/contracts/states.ts';
import type { EngineRunRef } from '../../src/contracts/values.ts';
import type { TemporalOptions } from '../../src/engines/temporal/options.ts';
import { createTemporalRuntime } from '../../src/runtime/create-temporal-runtime.ts';
import type { EngineRuntime } from '../../src/runtime/engine-parts.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import { ENGINE_TOOL_FORMS, engineTools } from '../../src/testing/engine-tools.ts';
import { memoryArtifacts } from '../../src/tools/call-context.fixture.ts';
import { noopTool } from '../../src/tools/noop/noop-tool.ts';
import type { History } from './history-json.ts';

const SECRET = 'marker-of-a-secret';

interface Recipe {
  readonly steps: (folder: string) => string;
  /** Sent when a call waits at its gate, which opens after the last one. */
  readonly signals?: readonly string[];
  readonly workflow?: TemporalOptions['workflow'];
}

const GATED = (folder: string): string => `
- {step: start, tool: {kind: probe, file: ${folder}/calls, wait_for: ${folder}/gate}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: noop, result: marker-of-a-result}}`;

/** Everything that the workflow does: lines, branches, timers, loops, children, signals, and one execution after the other. */
const RECIPES: Readonly<Record<string, Recipe>> = {
  line: {
    steps: (folder) => `
- {step: start, tool: {kind: probe, file: ${folder}/calls, label: "{{ keychain.api }}"}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: noop, result: "marker-of-a-result {{ start }}"}}`,
  },
  branches: {
    steps: (folder) => `
- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
- step: left
  spec: {policy: {failure: {retry: {attempts: 2, delay: 2, backoff: fixed}}}}
  tool: {kind: probe, file: ${folder}/calls, label: marker-of-a-label, fail: 1}
  next: {arcs: [{step: both}]}
- step: right
  loop: {in: [marker-of-an-item, b, c, d, e], iterator: x, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop, result: "{{ iter.x }}"}
  next: {arcs: [{step: both}]}
- {step: both, join: all, tool: {kind: noop}}`,
  },
  failure: {
    steps: (folder) => `
- {step: start, tool: {kind: probe, file: ${folder}/calls, label: marker-of-a-message, fail: 9, retryable: false}}`,
  },
  child: { steps: () => '\n- {step: start, tool: {kind: playbook, path: inner, input: {given: marker-of-an-input}}}' },
  paused: { steps: GATED, signals: ['PAUSE', 'RESUME'] },
  cancelled: { steps: GATED, signals: ['CANCEL'] },
  rotated: {
    steps: () => `
- step: start
  loop: {in: "{{ range(12) | list }}", iterator: n}
  tool: {kind: noop, result: "{{ iter.n }}"}`,
    workflow: { maxEvents: 30, handOverMs: 200 },
  },
};
const HEAD = 'apiVersion: noetl.io/v2\nkind: Playbook\n';
const INNER = `${HEAD}metadata: {name: inner}\nworkflow:\n- {step: start, tool: {kind: noop, result: marker-of-a-child}}`;

export interface RecordedHistory {
  /** Unique among the recorded ones: the recipe, and which execution it is. */
  readonly name: string;
  readonly workflowId: string;
  readonly history: History;
}

/** Runs every recipe on a server and gives the histories of all its executions. */
export async function recordHistories(
  server: { address: string; namespace: string },
  url: string,
): Promise<RecordedHistory[]> {
  const connection = await Connection.connect({ address: server.address });
  const client = new Client({ connection, namespace: server.namespace });
  const store = await PostgresStore.open({ url });
  const found: RecordedHistory[] = [];
  try {
    for (const [name, recipe] of Object.entries(RECIPES)) {
      const folder = mkdtempSync(join(tmpdir(), 'runledger-history-'));
      const runtime = await createTemporalRuntime({
        store,
        tools: [noopTool(), ...engineTools()],
        artifacts: memoryArtifacts(),
        secrets: { resolve: async () => SECRET },
        temporal: {
          ...server,
          taskQueue: `history-${randomUUID()}`,
          ...(recipe.workflow ? { workflow: recipe.workflow } : {}),
        },
      });
      try {
        const ref = await play(runtime, store, name, recipe, folder);
        found.push(...(await executionsOf(client, name, ref.workflowId)));
      } finally {
        await runtime.close();
        rmSync(folder, { recursive: true, force: true });
      }
    }
  } finally {
    await store.close();
    await connection.close();
  }
  return found;
}

async function play(
  { plans, engine }: EngineRuntime,
  store: PostgresStore,
  name: string,
  { steps, signals = [] }: Recipe,
  folder: string,
): Promise<EngineRunRef> {
  const text = `${HEAD}metadata: {name: ${name}}\nkeychain: [{name: api, kind: credential, credential: token}]\nworkflow:${steps(folder)}\n`;
  const resolve = () => ({ text: INNER, file: 'inner.yaml' });
  const compiled = compileSync({ text, file: name }, { tools: ENGINE_TOOL_FORMS, resolve });
  if (!compiled.ok) throw new Error(compiled.problems.map(({ message }) => message).join('\n'));
  for (const child of compiled.children.values()) await plans.keep(child);
  const context = { tenantId: 'acme', projectId: 'main', environmentId: 'test', runId: randomUUID() };
  const ref = await engine.startRun(await plans.keep(compiled), { ...context, targetAdapter: 'temporal' });
  const types = async () => (await store.readEvents(ref.runId)).map(({ eventType }) => eventType);
  if (signals.length > 0) await until(async () => (await types()).includes('TaskStarted'));
  for (const type of signals) await engine.signal(ref, { signalId: type, type });
  writeFileSync(join(folder, 'gate'), '');
  await until(async () => {
    const run = await store.findRun(ref.runId);
    return run?.status !== undefined && isTerminal(run.status);
  });
  return ref;
}

/** From the last execution back to the first: each says which one it continues. */
async function executionsOf(client: Client, name: string, workflowId: string): Promise<RecordedHistory[]> {
  const handle = client.workflow.getHandle(workflowId);
  await until(async () => (await handle.describe()).status.name !== 'RUNNING');
  const histories: History[] = [];
  for (let runId: string | undefined; ; ) {
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    histories.unshift(history);
    runId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined;
    if (runId === undefined) break;
  }
  return histories.map((history, i) => ({ name: `${name}-${i + 1}`, workflowId, history }));
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 60_000; !(await holds()); await sleep(20)) {
    if (Date.now() > end) throw new Error('it did not happen');
  }
}
