import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import vm from 'node:vm';
import { build } from 'esbuild';
import { expect, test } from 'vitest';
import { buildPlan } from '../src/testing/build-plan.ts';
import { TEST_CONTEXT, TEST_PLAN_REF } from '../src/testing/record-log.ts';

const KERNEL = resolve(import.meta.dirname, '../src/kernel');

/** Every file of the kernel in one script, for a platform that has nothing of Node. */
async function bundle(): Promise<{ code: string; inputs: string[] }> {
  const files = readdirSync(KERNEL, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !/\.(test|fixture)\.ts$/.test(path),
  );
  const contents = files.map((path, i) => `export * as m${i} from './${path}';`);
  contents.push("export { decide } from './decide.ts'; export { engineState } from './compile-plan.ts';");
  contents.push("export { fold } from './evolve.ts'; export { toSnapshot } from './to-snapshot.ts';");
  const result = await build({
    stdin: { contents: contents.join('\n'), resolveDir: KERNEL, loader: 'ts' },
    bundle: true,
    write: false,
    platform: 'browser',
    format: 'iife',
    globalName: 'kernel',
    target: 'es2022',
    metafile: true,
    logLevel: 'silent',
  });
  return { code: result.outputFiles[0]!.text, inputs: Object.keys(result.metafile.inputs) };
}

test('the kernel bundles for a browser: nothing of it, or below it, imports a module of Node', async () => {
  const { code, inputs } = await bundle();
  expect(inputs.filter((path) => /(^|:)node:/.test(path))).toEqual([]);
  expect(code).not.toMatch(/require\("node:|from ?"node:|Dynamic require/);
  expect(inputs.some((path) => path.endsWith(join('kernel', 'decide.ts')))).toBe(true);
}, 60_000);

test('the kernel decides in a sandbox that has no process, no clock, no randomness and no timers', async () => {
  const { code } = await bundle();
  // Browsers and workflow sandboxes have these two; the schema library asks for them when it is loaded.
  const context = vm.createContext({ TextEncoder, TextDecoder });
  const forbidden = `
    const refuse = (what) => () => { throw new Error('the kernel used ' + what); };
    Math.random = refuse('Math.random');
    Date.now = refuse('Date.now');
    const RealDate = Date;
    Date = new Proxy(RealDate, {
      construct(target, args) { if (args.length === 0) refuse('the clock')(); return new target(...args); },
      apply: refuse('the clock'),
    });
  `;
  vm.runInContext(`${forbidden}\n${code}\nglobalThis.kernel = kernel;`, context);
  const plan = buildPlan([
    {
      stepId: 'a',
      next: { mode: 'exclusive', arcs: [{ step: 'b', when: '{{ a.n == 1 }}', args: { x: '{{ a.n }}' } }] },
    },
    { stepId: 'b', failure: { retry: { attempts: 2, delay: 5 } } },
  ]);
  const script = `
    (() => {
      const { decide, engineState, fold } = kernel;
      const plan = JSON.parse(input.plan);
      const now = '2026-01-01T00:00:00.000Z';
      let state = engineState(plan, 'r');
      const types = [];
      const take = (events) => {
        state = fold(state, events.map((event, i) => ({ ...event, emittedAt: now, runSeq: state.lastEventSeq + i + 1 })));
        types.push(...events.map((event) => event.eventType));
      };
      const act = (command) => take(decide(plan, state, { ...command, now }).events);
      act({ type: 'request', planRef: JSON.parse(input.planRef), context: JSON.parse(input.context) });
      act({ type: 'start', started: {} });
      take([{ eventType: 'StepStarted', stepId: 'a', logicalAttemptId: 1 }]);
      act({ type: 'stepSettled', stepId: 'a', attempt: 1, settled: { status: 'completed', result: { value: { n: 1 } } } });
      take([{ eventType: 'StepStarted', stepId: 'b', logicalAttemptId: 1 }]);
      const error = { category: 't', code: 'E', message: '', retryable: true };
      act({ type: 'stepSettled', stepId: 'b', attempt: 1, settled: { status: 'failed', error } });
      return JSON.stringify(types);
    })()
  `;
  const input = {
    plan: JSON.stringify(plan),
    planRef: JSON.stringify(TEST_PLAN_REF),
    context: JSON.stringify(TEST_CONTEXT),
  };
  Object.assign(context, { input });
  expect(JSON.parse(vm.runInContext(script, context) as string)).toEqual([
    'PlaybookExecutionRequested',
    'PlaybookRequestEvaluated',
    'RunStarted',
    'StepScheduled',
    'StepStarted',
    'StepCompleted',
    'NextEvaluated',
    'StepScheduled',
    'StepStarted',
    'StepFailed',
    'StepScheduled',
    'StepDelayed',
  ]);
}, 60_000);
