import { compileSync } from '../../src/compiler/compile.ts';
import { folderArtifacts } from '../../src/engines/native/folder-artifacts.fixture.ts';
import { createNativeRuntime } from '../../src/runtime/create-native-runtime.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import { noopTool } from '../../src/tools/noop/noop-tool.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { type Contender, type Setup, STEPS } from './contender.ts';

const SCOPE = { tenantId: 'acme', projectId: 'bench', environmentId: 'bench' };

const playbook = (name: string, steps: string): string =>
  `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: ${name}, version: "1"}\nworkflow:\n${steps}\n`;

/** A line of no-op steps. */
export function lineOfSteps(count: number): string {
  const steps = Array.from({ length: count }, (_, i) => {
    const next = i + 1 < count ? `, next: {arcs: [{step: s${i + 1}}]}` : '';
    return `- {step: s${i}, tool: {kind: noop, result: ${i}}${next}}`;
  });
  return playbook(`line${count}`, steps.join('\n'));
}

/** Ten steps in a ring, which a run goes round until it has taken so many. */
export function ringOfSteps(count: number): string {
  const steps = Array.from({ length: 10 }, (_, i) => {
    if (i < 9) return `- {step: s${i}, tool: {kind: noop, result: ${i}}, next: {arcs: [{step: s${i + 1}}]}}`;
    return `- step: s9
  tool: {kind: noop, result: "{{ (ctx.turn | default(0)) + 1 }}"}
  set: {ctx.turn: "{{ s9 }}"}
  next: {arcs: [{step: s0, when: "{{ ctx.turn < ${count / 10} }}"}]}`;
  });
  return playbook(`ring${count}`, steps.join('\n'));
}

/** One step that is a loop of no-op iterations. */
export function parallelLoop(count: number, inFlight: number): string {
  const loop = `{in: "{{ range(${count}) }}", iterator: n, spec: {mode: parallel, max_in_flight: ${inFlight}}}`;
  return playbook(`loop${count}`, `- step: each\n  loop: ${loop}\n  tool: {kind: noop, result: "{{ iter.n }}"}`);
}

/** Runs are followed in the process: their end is told by the engine's own commit, not by a poll. */
export async function openRunledger(setup: Setup): Promise<Contender> {
  const { options, role } = setup;
  const store = await PostgresStore.open({ ...setup.target, migrate: true });
  const waiting = new Map<string, () => void>();
  const runtime = createNativeRuntime({
    store,
    tools: [tellingNoop(setup)],
    artifacts: folderArtifacts(setup.folder),
    runAhead: options['runAhead'] !== false,
    worker:
      role === 'starter'
        ? false
        : {
            concurrency: Number(options['concurrency'] ?? 256),
            onError: (error, unit) => setup.onError(`${unit}: ${String(error)}`),
          },
    onEnd: (runId) => waiting.get(runId)?.(),
  });
  const text = String(options['playbook'] ?? lineOfSteps(STEPS));
  const result = compileSync({ text, file: 'bench.yaml' });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  const planRef = await runtime.plans.keep(result);
  const start = async (runId: string): Promise<void> => {
    await runtime.engine.startRun(planRef, { ...SCOPE, runId, targetAdapter: 'native' });
  };
  return {
    start,
    async run(runId) {
      const ended = new Promise<void>((resolve) => waiting.set(runId, resolve));
      await start(runId);
      await ended;
      waiting.delete(runId);
    },
    async close() {
      await runtime.close();
      await store.close();
    },
  };
}

/** The product's own tool, which also tells when it is called. */
function tellingNoop({ onFirstStep, onStep }: Setup): Tool {
  const plain = noopTool();
  return {
    kind: plain.kind,
    input: plain.input,
    classify: (input) => plain.classify(input),
    propose: (input) => plain.propose(input),
    call(input, context) {
      onStep();
      const { stepId, runId } = context.place;
      if (stepId === 's0') onFirstStep(runId);
      return plain.call(input, context);
    },
  };
}
