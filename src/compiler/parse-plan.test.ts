import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { AppError } from '../contracts/errors.ts';
import { PLAN_SCHEMA_VERSIONS, type Plan } from '../contracts/plan.ts';
import { compiled, playbook } from './compile.fixture.ts';
import { isSupportedSchemaVersion, parsePlan } from './parse-plan.ts';

const good = compiled(
  playbook(
    `
- step: start
  tool:
    - {name: a, kind: http, url: "https://x.test"}
    - {name: b, kind: noop, spec: {policy: {rules: [{then: {do: jump, to: a}}]}}}
  next: {spec: {mode: inclusive}, arcs: [{step: end}, {step: end}]}
- {step: end, join: all, loop: {in: [1]}, tool: {kind: workbook, name: w}}
`,
    'workbook: [{name: w, tool: {kind: noop}}]\n',
  ),
);

/** The code and the problems with which a plan is refused. */
function refusal(value: unknown, options = {}): { code: string; paths: unknown } {
  try {
    parsePlan(typeof value === 'string' ? value : JSON.stringify(value), options);
  } catch (thrown) {
    if (!(thrown instanceof AppError)) throw thrown;
    const problems = thrown.details['problems'] as { path: string }[] | undefined;
    return { code: thrown.code, paths: problems?.map(({ path }) => path) };
  }
  return { code: 'none', paths: undefined };
}

/** The good plan with one change. */
function changed(change: (plan: Plan) => void): Plan {
  const plan = structuredClone(good.plan);
  change(plan);
  return plan;
}

describe('a plan from anywhere', () => {
  test('is taken as it is if nothing is wrong with it', () => {
    expect(parsePlan(good.json, { sha256: good.sha256 })).toEqual({ plan: good.plan, sha256: good.sha256 });
    expect(parsePlan(new TextEncoder().encode(good.json)).plan).toEqual(good.plan);
  });

  test('is refused if its bytes are not those of the reference', () => {
    const other = good.json.replace('x.test', 'y.test');
    expect(refusal(other, { sha256: good.sha256 }).code).toBe('PLAN_INTEGRITY_VALIDATION_FAILED');
    try {
      parsePlan(other, { sha256: good.sha256 });
    } catch (thrown) {
      expect((thrown as AppError).details).toMatchObject({
        expected: good.sha256,
        actual: expect.stringMatching(/^[0-9a-f]{64}$/),
      });
    }
  });

  test('WE-3.1b is refused if its schema version is unknown', () => {
    for (const schemaVersion of ['v2.0', 'v1.99', '1.0', 'v1', 'v01.0', '', 7, undefined]) {
      expect(refusal({ ...good.plan, schemaVersion }).code).toBe('PLAN_SCHEMA_VERSION_UNSUPPORTED');
    }
    expect(refusal('[]').code).toBe('PLAN_SCHEMA_VERSION_UNSUPPORTED');
  });

  test('WE-3.1b up to three minor versions back are taken', () => {
    const taken = ['v1.7', 'v1.6', 'v1.5', 'v1.4', 'v1.3', 'v1.8', 'v2.6', 'v0.7'].map((version) =>
      isSupportedSchemaVersion(version, 'v1.7'),
    );
    expect(taken).toEqual([true, true, true, true, false, false, false, false]);
    for (const { version } of PLAN_SCHEMA_VERSIONS) expect(isSupportedSchemaVersion(version)).toBe(true);
  });

  test('WE-3.1e the versions that are taken are published, and each but the newest has its end', () => {
    const [newest, ...older] = PLAN_SCHEMA_VERSIONS;
    expect(newest).toEqual({ version: good.plan.schemaVersion });
    for (const { end } of older) expect(end).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    const published = readFileSync(new URL('../../docs/plan-versions.md', import.meta.url), 'utf8');
    for (const { version, end } of PLAN_SCHEMA_VERSIONS) {
      expect(published).toContain(`| ${version} | ${end ?? 'not deprecated'} |`);
    }
  });

  describe('WE-3.2c a plan that our compiler did not write', () => {
    test.each([
      ['/steps/0/surprise', (plan: Plan) => Object.assign(plan.steps[0]!, { surprise: 1 })],
      ['/steps/0/tasks/0/surprise', (plan: Plan) => Object.assign(plan.steps[0]!.tasks[0]!, { surprise: 1 })],
      [
        '/steps/0/tasks/1/policy/rules/0/then/do',
        (plan: Plan) => Object.assign(plan.steps[0]!.tasks[1]!.policy!.rules[0]!.then, { do: 'explode' }),
      ],
      ['/steps/1/loop/mode', (plan: Plan) => Object.assign(plan.steps[1]!.loop!, { mode: 'sideways' })],
      ['/metadata/planId', (plan: Plan) => Object.assign(plan.metadata, { planId: 'a|b' })],
      ['/surprise', (plan: Plan) => Object.assign(plan, { surprise: 1 })],
    ])('is refused with the pointer %s if a field does not fit', (path, change) => {
      expect(refusal(changed(change))).toEqual({ code: 'INVALID_STEP_SCHEMA', paths: [path] });
    });

    test.each([
      ['/entryStep', (plan: Plan) => Object.assign(plan, { entryStep: 'nowhere' })],
      ['/finalStep', (plan: Plan) => Object.assign(plan, { finalStep: 'nowhere' })],
      ['/steps/0/next/arcs/1/step', (plan: Plan) => Object.assign(plan.steps[0]!.next!.arcs[1]!, { step: 'nowhere' })],
      [
        '/steps/1/stepId',
        (plan: Plan) => {
          plan.steps[1]!.stepId = 'start';
          plan.steps[0]!.next!.arcs = [];
          plan.steps[0]!.reaches = [];
        },
      ],
      ['/steps/1/index', (plan: Plan) => Object.assign(plan.steps[1]!, { index: 5 })],
      ['/steps/0/reaches/0', (plan: Plan) => Object.assign(plan.steps[0]!, { reaches: ['start'] })],
      ['/steps/0/tasks/1/name', (plan: Plan) => Object.assign(plan.steps[0]!.tasks[1]!, { name: 'a' })],
      [
        '/steps/0/tasks/1/policy/rules/0/then/to',
        (plan: Plan) => Object.assign(plan.steps[0]!.tasks[1]!.policy!.rules[0]!.then, { to: 'x' }),
      ],
      ['/steps/1/loop', (plan: Plan) => Object.assign(plan.steps[1]!.loop!, { in: undefined })],
      ['/workbook/w/name', (plan: Plan) => Object.assign(plan.workbook['w']!, { name: 'v' })],
      ['/steps/1/tasks/0/with/name', (plan: Plan) => Object.assign(plan, { workbook: {} })],
      [
        '/steps/0',
        (plan: Plan) => {
          plan.steps[0]!.tasks = [];
          delete plan.steps[0]!.next;
        },
      ],
    ])('is refused with the pointer %s if a name points nowhere', (path, change) => {
      expect(refusal(changed(change))).toEqual({ code: 'INVALID_STEP_SCHEMA', paths: [path] });
    });
  });

  test('ES-2a is refused if it holds a secret value', () => {
    const plan = changed(({ steps }) =>
      Object.assign(steps[0]!.tasks[0]!.with, { headers: { Authorization: 'Bearer s3cr3tV4lue' } }),
    );
    expect(refusal(plan).code).toBe('SECRET_IN_PLAN');
    expect(refusal(changed((other) => other.keychain.push({ name: 'k', kind: 'static', map: { a: 'b' } }))).code).toBe(
      'SECRET_IN_PLAN',
    );
  });

  test('is refused before it can do harm: too large, too deep, not JSON, not UTF-8, reaching for prototypes', () => {
    expect(refusal(good.json, { maxBytes: 100 }).code).toBe('PLAN_TOO_LARGE');
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    expect(refusal(deep).code).toBe('INVALID_STEP_SCHEMA');
    expect(refusal('{').code).toBe('INVALID_STEP_SCHEMA');
    expect(refusal(good.json.replace('"workload":{}', '"workload":{"__proto__":{"a":1}}')).code).toBe(
      'INVALID_STEP_SCHEMA',
    );
    expect(refusal(good.json.replace('"workload":{}', '"workload":{"a":"\\u0000"}')).code).toBe('INVALID_STEP_SCHEMA');
    expect(() => parsePlan(new Uint8Array([0x7b, 0xff, 0x7d]))).toThrow('UTF-8');
  });
});
