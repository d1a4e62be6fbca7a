import { readdirSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import Type from 'typebox';
import { type CompileResult, compileSync } from '../../src/compiler/compile.ts';
import { parsePlan } from '../../src/compiler/parse-plan.ts';
import type { Plan } from '../../src/contracts/plan.ts';
import type { PlanRef } from '../../src/contracts/values.ts';
import { parseEntity, stepNameOf } from '../../src/kernel/entity-path.ts';
import { canonicalJson } from '../../src/lib/canonical-json.ts';
import { sha256Hex } from '../../src/lib/hash.ts';
import { loadSettings } from '../../src/runtime/config.ts';
import { compileFile } from '../../src/runtime/playbook-files.ts';
import { arbitraryPlan } from '../../src/testing/arbitrary-plan.ts';
import { simulate } from '../../src/testing/simulator.ts';
import { defineTool, toolFailure } from '../../src/tools/define-tool.ts';
import { noopTool } from '../../src/tools/noop/noop-tool.ts';
import { ShellTool } from '../../src/tools/shell/shell-tool.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { testSeed } from '../setup/seed.ts';
import { normalise } from './normalise.ts';

interface KeptPlan {
  readonly json: string;
  readonly sha256: string;
  readonly planRef: PlanRef;
}

/** A signal that is sent when the log has an event of this type, of this step if one is named. */
export interface TimedSignal {
  readonly on: string;
  readonly step?: string;
  readonly signal: { readonly type: string; readonly stepId?: string };
  /** Gates that open after the signal was taken. */
  readonly opens?: readonly string[];
}

/** A plan that every engine must run in the same way. */
export interface Program {
  readonly title: string;
  readonly plan: KeptPlan;
  readonly children: readonly KeptPlan[];
  readonly workload?: Record<string, unknown>;
  readonly signals?: readonly TimedSignal[];
}

const EXAMPLES = resolve(import.meta.dirname, '../../examples');
const HEAD = 'apiVersion: noetl.io/v2\nkind: Playbook\n';
const FORMS = { tool: {}, gate: {} };

/** Every playbook of the examples, with the tools of the configuration beside it. */
export async function examplePrograms(): Promise<{ programs: Program[]; tools: Tool[] }> {
  const files = readdirSync(EXAMPLES, { recursive: true, encoding: 'utf8' }).filter((file) => /\.ya?ml$/.test(file));
  const programs: Program[] = [];
  const tools: Tool[] = [];
  for (const file of files.sort()) {
    const settings = await loadSettings({ cwd: dirname(join(EXAMPLES, file)), env: {} });
    tools.push(...settings.tools);
    const program = programOf(file, await compileFile(join(EXAMPLES, file), settings));
    programs.push(program, ...(OTHER_WAYS[file] ?? []).map((workload) => withWorkload(program, workload)));
  }
  return { programs, tools };
}

/** Workloads that take another way through an example. */
const OTHER_WAYS: Readonly<Record<string, readonly Record<string, unknown>[]>> = {
  'branches.yaml': [{ amount: 50 }],
  'handled-failure.yaml': [{ divisor: 4 }],
  'admission.yaml': [{ environment: 'prod' }],
};

const withWorkload = (program: Program, workload: Record<string, unknown>): Program => ({
  ...program,
  title: `${program.title} with ${canonicalJson(workload)}`,
  workload,
});

function programOf(title: string, compiled: CompileResult): Program {
  if (!compiled.ok) throw new Error(`${title}: ${compiled.problems.map(({ message }) => message).join('\n')}`);
  return { title, plan: compiled, children: [...compiled.children.values()] };
}

/** Signals at moments that do not depend on how fast an engine is. */
export function signalPrograms(): Program[] {
  const program = (title: string, workflow: string, signals: readonly TimedSignal[]): Program => ({
    ...programOf(
      title,
      compileSync({ text: `${HEAD}metadata: {name: ${title}}\nworkflow:\n${workflow}`, file: title }, { tools: FORMS }),
    ),
    signals,
  });
  const gated = '- {step: start, tool: {kind: gate, gate: g}, next: {arcs: [{step: end}]}}';
  const end = '- {step: end, tool: {kind: noop, result: over}}';
  return [
    program('paused', `${gated}\n${end}`, [
      { on: 'StepStarted', step: 'start', signal: { type: 'PAUSE' }, opens: ['g'] },
      { on: 'StepCompleted', step: 'start', signal: { type: 'RESUME' } },
    ]),
    program('cancelled', `${gated}\n${end}`, [{ on: 'StepStarted', step: 'start', signal: { type: 'CANCEL' } }]),
    program(
      'skipped',
      `- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: held}, {step: late}]}
- {step: held, tool: {kind: gate, gate: g}, next: {arcs: [{step: end}]}}
- step: late
  spec: {policy: {failure: {retry: {attempts: 2, delay: 3600}}}}
  tool: {kind: tool, fail: always}
  next: {arcs: [{step: end}]}
- {step: end, join: all, tool: {kind: noop, result: over}}`,
      [
        // Between its attempts the step is scheduled and has not begun.
        { on: 'StepFailed', step: 'late', signal: { type: 'SKIP_STEP', stepId: 'late' }, opens: ['g'] },
      ],
    ),
    program('refused', `${gated}\n${end}`, [
      { on: 'StepStarted', step: 'start', signal: { type: 'SKIP_STEP', stepId: 'start' }, opens: ['g'] },
    ]),
  ];
}

/**
 * Plans made at random, of which those are taken whose log does not depend on who is faster: played by the simulator
 * in many orders they always leave the same. (Branches that write the same variable have no one right log.)
 */
export function generatedPrograms(count: number): Program[] {
  const found: Program[] = [];
  const candidates = fc.sample(arbitraryPlan, { numRuns: count * 6, seed: testSeed });
  for (const [i, candidate] of candidates.entries()) {
    if (found.length === count) break;
    const plan = hurried({ ...candidate, metadata: { ...candidate.metadata, planId: `generated-${i}` } });
    if (isPlan(plan) && isConfluent(plan)) found.push({ title: `generated plan ${i}`, plan: kept(plan), children: [] });
  }
  return found;
}

/** The same plan with retries after an instant: delays are proven elsewhere, and engines wait in real time. */
function hurried(plan: Plan): Plan {
  const soon = { backoff: 'fixed' as const, delay: 0.03 };
  const steps = plan.steps.map((step) => ({
    ...step,
    ...(step.failure?.retry ? { failure: { ...step.failure, retry: { ...step.failure.retry, ...soon } } } : {}),
    tasks: step.tasks.map((task) => {
      const rules = task.policy?.rules.map((rule) =>
        rule.then.do === 'retry' ? { ...rule, then: { ...rule.then, ...soon } } : rule,
      );
      return rules ? { ...task, policy: { ...task.policy, rules } } : task;
    }),
  }));
  return { ...plan, steps };
}

const ORDERS = 12;

/** The simulator takes plans that no compiler would make, such as steps without tasks and arcs. */
function isPlan(plan: Plan): boolean {
  try {
    return parsePlan(canonicalJson(plan)) !== undefined;
  } catch {
    return false;
  }
}

function isConfluent(plan: Plan): boolean {
  const hasTools = plan.steps.some(({ tasks }) => tasks.some(({ kind }) => kind === 'tool'));
  const scripts = hasTools ? { tool: scripted } : {};
  const logs = Array.from({ length: ORDERS }, (_, seed) => {
    const workers = [1, 2, 100][seed % 3] as number;
    const { log } = simulate(plan, { seed: seed + 1, runId: 'run', workers, scripts });
    return normalise(log).join('\n');
  });
  return new Set(logs).size === 1;
}

function kept(plan: Plan): KeptPlan {
  const json = canonicalJson(plan);
  const sha256 = sha256Hex(json);
  const { planId, planVersion } = plan.metadata;
  const uri = `runledger-plan:sha256/${sha256}`;
  return { json, sha256, planRef: { uri, sha256, planId, planVersion, schemaVersion: plan.schemaVersion } };
}

interface Call {
  readonly step: string;
  readonly task: string;
  readonly index?: number | undefined;
  readonly run: number;
  readonly attempt: number;
  readonly logicalAttempt: number;
}

/** What a call of the generated plans gives: by its place, never by when it is made or which instance makes it. */
function scripted({ step, task, index = -1, run, attempt, logicalAttempt }: Call): { ok: unknown } | { error: object } {
  const digest = sha256Hex([step, task, index, run, attempt, logicalAttempt].join(' '));
  const chance = Number.parseInt(digest.slice(0, 8), 16) / 0xffffffff;
  return chance < 0.2 ? { error: { code: 'E' } } : { ok: { k: index < 0 ? 1 : index } };
}

/** The tools of generated and signalled programs, and of the examples. `folder` is where gates are: files that let a call go on. */
export function conformanceTools(folder: string): Tool[] {
  return [
    noopTool(),
    new ShellTool(),
    defineTool({
      kind: 'tool',
      input: Type.Object({ fail: Type.Optional(Type.String()) }),
      effect: 'compute',
      run({ fail }, { place }) {
        const { iteration, part = '', occurrence = 1, attempt = 1 } = parseEntity(place.entity) ?? {};
        const call = { task: part, index: iteration, run: occurrence, attempt, logicalAttempt: place.attempt };
        const outcome = fail ? { error: {} } : scripted({ step: stepNameOf(place.stepId), ...call });
        if ('error' in outcome) throw toolFailure({ code: 'E', message: 'The script said so.', retryable: true });
        return outcome.ok;
      },
    }),
    defineTool({
      kind: 'gate',
      input: Type.Object({ gate: Type.String() }),
      effect: 'read',
      async run({ gate }, { signal, place }) {
        for (;;) {
          if (await isThere(join(folder, `${place.runId}-${gate}`))) return gate;
          await sleep(10, undefined, { signal });
        }
      },
    }),
  ];
}

function isThere(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
