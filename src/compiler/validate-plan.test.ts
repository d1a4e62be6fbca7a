import { describe, expect, test } from 'vitest';
import type { Plan } from '../contracts/plan.ts';
import { ENGINES } from '../contracts/values.ts';
import { CAPABILITIES } from './capabilities.ts';
import { CAPABILITY_MATRIX, type CapabilityRow } from './capability-matrix.ts';
import { compiled, withTool } from './compile.fixture.ts';
import { validatePlan } from './validate-plan.ts';

const ROW: CapabilityRow = {
  engine: 'conductor',
  capabilities: {
    timers: { native: 'timers' },
    PAUSE: { emulation: 'tasks in flight are drained' },
    'fan-out': { withoutIt: 'branches run one after the other' },
    CANCEL: { emulation: 'the step is told to stop', withoutIt: 'the step runs to its end' },
  },
};

function plan(requires: readonly string[], fallback?: string, adapter?: string): Plan {
  const fields = [
    `requiresCapabilities: [${requires.join(', ')}]`,
    ...(fallback ? [`fallbackBehavior: ${fallback}`] : []),
    ...(adapter ? [`targetAdapter: ${adapter}`] : []),
  ];
  return compiled(withTool('{kind: noop}').replace('version: "1"', fields.join(', '))).plan;
}

/** `code capability` of errors and `code` of warnings. */
function report(value: Plan): { status: string; errors: string[]; warnings: string[] } {
  const { status, errors, warnings } = validatePlan(value, ROW);
  return {
    status,
    errors: errors.map(({ code, capability }) => `${code} ${capability}`),
    warnings: warnings.map(({ code }) => code),
  };
}

describe('the capabilities of a plan against those of an engine', () => {
  test('WE-4b a report names the plan, its status, and each error and warning in words', () => {
    expect(validatePlan(plan(['PAUSE', 'teleport']), ROW)).toEqual({
      planId: 'test',
      status: 'ERRORS',
      errors: [
        {
          code: 'CAPABILITY_NOT_SUPPORTED',
          capability: 'PAUSE',
          message:
            'conductor does not have PAUSE (a run can be paused and resumed); choose another engine, or say fallbackBehavior: emulate',
        },
        {
          code: 'CAPABILITY_NOT_SUPPORTED',
          capability: 'teleport',
          message: 'conductor does not have teleport; choose another engine',
        },
      ],
      warnings: [],
    });
    expect(validatePlan(plan(['PAUSE'], 'emulate'), ROW)).toEqual({
      planId: 'test',
      status: 'WARNINGS',
      errors: [],
      warnings: [
        {
          code: 'CAPABILITY_EMULATED',
          message: 'conductor emulates PAUSE (a run can be paused and resumed): tasks in flight are drained',
        },
      ],
    });
  });

  test('WE-4a a plan that asks for nothing, or for what the engine has, is valid', () => {
    expect(report(plan([]))).toEqual({ status: 'VALID', errors: [], warnings: [] });
    expect(report(plan(['timers']))).toEqual({ status: 'VALID', errors: [], warnings: [] });
  });

  test.each([
    [undefined, 'PAUSE', 'ERRORS'],
    ['reject', 'PAUSE', 'ERRORS'],
    ['emulate', 'PAUSE', 'WARNINGS'],
    ['degrade', 'PAUSE', 'ERRORS'],
    ['reject', 'fan-out', 'ERRORS'],
    ['emulate', 'fan-out', 'ERRORS'],
    ['degrade', 'fan-out', 'WARNINGS'],
    ['emulate', 'CANCEL', 'WARNINGS'],
    ['degrade', 'CANCEL', 'WARNINGS'],
    ['emulate', 'teleport', 'ERRORS'],
    ['degrade', 'toString', 'ERRORS'],
  ])('WE-4a with fallback %s, %s gives %s', (fallback, capability, status) => {
    expect(report(plan([capability], fallback)).status).toBe(status);
  });

  test('WE-4a one error that remains refuses the start, whatever else is only a warning', () => {
    expect(report(plan(['PAUSE', 'teleport'], 'emulate'))).toEqual({
      status: 'ERRORS',
      errors: ['CAPABILITY_NOT_SUPPORTED teleport'],
      warnings: ['CAPABILITY_EMULATED'],
    });
  });

  test('WE-3.2b a plan for one engine does not run on another, a plan for any does', () => {
    expect(report(plan([], 'degrade', 'temporal')).errors).toEqual(['CAPABILITY_NOT_SUPPORTED adapter:temporal']);
    expect(report(plan([], undefined, 'conductor')).status).toBe('VALID');
    expect(report(plan([], undefined, 'any')).status).toBe('VALID');
  });

  test('WE-4a every engine of the matrix answers for every capability, and an engine by name is judged by its row', () => {
    expect(Object.keys(CAPABILITY_MATRIX).sort()).toEqual([...ENGINES].sort());
    for (const engine of ENGINES) {
      const row = CAPABILITY_MATRIX[engine];
      expect(row.engine).toBe(engine);
      expect(Object.keys(row.capabilities).sort()).toEqual(Object.keys(CAPABILITIES).sort());
      for (const capability of Object.keys(CAPABILITIES)) {
        for (const fallback of ['reject', 'emulate', 'degrade']) {
          const asked = plan([capability], fallback);
          expect(validatePlan(asked, engine)).toEqual(validatePlan(asked, row));
        }
      }
    }
  });

  test.each([
    ['native', 'PAUSE', undefined, 'VALID'],
    ['temporal', 'PAUSE', undefined, 'VALID'],
    ['conductor', 'PAUSE', undefined, 'ERRORS'],
    ['conductor', 'PAUSE', 'emulate', 'WARNINGS'],
    ['conductor', 'CANCEL', 'degrade', 'WARNINGS'],
    ['temporal', 'run-ahead', 'emulate', 'ERRORS'],
    ['temporal', 'run-ahead', 'degrade', 'WARNINGS'],
    ['conductor', 'cursor-loops', 'degrade', 'ERRORS'],
    ['mock', 'child-runs', 'emulate', 'WARNINGS'],
  ] as const)('WE-4a on %s, %s with fallback %s gives %s', (engine, capability, fallback, status) => {
    expect(validatePlan(plan([capability], fallback), engine).status).toBe(status);
  });
});
