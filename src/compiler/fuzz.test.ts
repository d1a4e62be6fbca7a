import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import { compilePlan } from '../kernel/compile-plan.ts';
import { compilePipeline } from '../kernel/pipeline-plan.ts';
import { compiled, compileText, folder } from './compile.fixture.ts';
import { parsePlan } from './parse-plan.ts';
import { planProblems } from './plan-problems.ts';
import { PROBLEMS } from './problems.ts';

const GOLDEN = ['fetch-cities', 'older-spellings', 'child', 'cursor'].map((name) =>
  readFileSync(new URL(`golden/${name}.yaml`, import.meta.url), 'utf8'),
);
const resolve = folder({ 'lib/child': GOLDEN[2]! });
const PIECES = [
  '{{',
  '}}',
  '{%',
  '%}',
  '{#',
  '[',
  ']',
  '{',
  '}',
  ': ',
  '- ',
  '? ',
  '&a ',
  '*a',
  '<<: *a',
  '!!str ',
  '!x ',
  '|',
  '>',
  '"',
  "'",
  '\\',
  '\t',
  '\n',
  '\r',
  '\n  ',
  '#',
  '---',
  '...',
  '%YAML 1.1\n',
  '@',
  '`',
  '\u0000',
  '\uFEFF',
  '\u202E',
  '\u{1F600}',
  '\ud800',
  '__proto__',
  'constructor',
  'yes',
  '0777',
  '1e999',
  '.nan',
  '~',
  'null',
  'keychain.x',
  'password: abc',
  'step: ',
  'kind: ',
  'then: ',
  'else: ',
  'when: ',
  'loop: ',
  'next: ',
  'tool: ',
  'previous',
  'in: ',
  'arcs: ',
  'retry: ',
];

/** A small generator with a fixed seed, so that a failure can be played again. */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 4_294_967_296;
  };
}

/** Every template of a compiled plan parses again where it is used; the kernel throws if one does not. */
function takenByKernel(plan: Plan): void {
  compilePlan(plan);
  for (const step of plan.steps) compilePipeline(plan, step.stepId);
}

function mutate(text: string, next: () => number): string {
  let out = text;
  for (let i = 1 + Math.floor(next() * 3); i > 0; i--) {
    const at = Math.floor(next() * out.length);
    const length = Math.floor(next() ** 3 * 60);
    const piece = PIECES[Math.floor(next() * PIECES.length)]!;
    const way = next();
    if (way < 0.3) out = out.slice(0, at) + piece + out.slice(at);
    else if (way < 0.5) out = out.slice(0, at) + out.slice(at + length);
    else if (way < 0.65) out = out.slice(0, at) + piece + out.slice(at + length);
    else if (way < 0.8) {
      // A line moved elsewhere: most of the mistakes that people make.
      const lines = out.split('\n');
      const [line = ''] = lines.splice(Math.floor(next() * lines.length), 1);
      lines.splice(Math.floor(next() * lines.length), 0, next() < 0.3 ? `  ${line}` : line);
      out = lines.join('\n');
    } else
      out = out.slice(0, at) + out.slice(at, at + length).repeat(1 + Math.floor(next() * 4)) + out.slice(at + length);
  }
  return out;
}

describe('mutated playbooks', () => {
  test.each([1, 2, 3, 4])(
    'give plans that are valid, or coded problems with places (seed %i)',
    { timeout: 60_000 },
    (seed) => {
      const next = random(seed);
      const codes = new Set<string>();
      let plans = 0;
      for (let round = 0; round < 250; round++) {
        const text = mutate(GOLDEN[round % GOLDEN.length]!, next);
        const result = compileText(text, { resolve });
        if (result.ok) {
          plans++;
          expect(planProblems(result.plan)).toEqual([]);
          expect(parsePlan(result.json, { sha256: result.sha256 }).plan).toEqual(result.plan);
          takenByKernel(result.plan);
          continue;
        }
        const lines = text.split('\n');
        for (const problem of result.problems) {
          expect(Object.keys(PROBLEMS)).toContain(problem.code);
          expect(problem.message).not.toMatch(/undefined|\[object|TypeError|RangeError|\bat .*:\d+:\d+/);
          if (problem.file !== 'test.yaml') continue;
          expect(problem.line).toBeLessThanOrEqual(lines.length);
          codes.add(problem.code);
        }
      }
      // The mutations must reach deep enough to say something: many kinds of mistakes, and some texts that still compile.
      expect(codes.size).toBeGreaterThan(7);
      expect(plans).toBeGreaterThan(5);
    },
  );
});

const VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  9_007_199_254_740_991,
  '',
  ' ',
  'x',
  'start',
  'fetch',
  '{{ ctx.a }}',
  '{{ nope }}',
  '{{',
  '{% raw %}',
  '\u200b',
  'a/b',
  'ctx',
  'previous',
  'x'.repeat(70_000),
  [],
  [null],
  [[]],
  {},
  { kind: 'noop' },
  { step: 'start' },
  { when: true },
  { then: {} },
  { else: null },
  { do: 'jump' },
  { constructor: 1 },
  [{ kind: 'playbook', path: 'lib/child' }],
];

/** The same values with some of them replaced, removed, or put under another key. */
function disturb(value: unknown, next: () => number, chance: number): unknown {
  if (next() < chance) return VALUES[Math.floor(next() * VALUES.length)];
  if (Array.isArray(value)) return value.flatMap((item) => (next() < chance ? [] : [disturb(item, next, chance)]));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).flatMap(([key, item]): [string, unknown][] => {
    if (next() < chance) return [];
    const name = next() < chance ? (FIELDS[Math.floor(next() * FIELDS.length)] ?? key) : key;
    return [[name, disturb(item, next, chance)]];
  });
  return Object.fromEntries(entries);
}

const FIELDS = [
  'step',
  'tool',
  'kind',
  'name',
  'spec',
  'policy',
  'rules',
  'when',
  'then',
  'else',
  'set',
  'set_ctx',
  'loop',
  'in',
  'next',
  'arcs',
  'retry',
  'effect',
  'input',
  'join',
  'output',
];

test.each([1, 2])(
  'disturbed playbooks give plans that are valid, or coded problems (seed %i)',
  { timeout: 60_000 },
  (seed) => {
    const next = random(seed);
    const values = GOLDEN.map((text) => parse(text) as unknown);
    const codes = new Set<string>();
    let plans = 0;
    for (let round = 0; round < 250; round++) {
      const text = JSON.stringify(disturb(values[round % values.length], next, 0.002 + next() * 0.03));
      const result = compileText(text, { resolve });
      if (result.ok) {
        plans++;
        expect(planProblems(result.plan)).toEqual([]);
        takenByKernel(result.plan);
      } else for (const { code } of result.problems) codes.add(code);
    }
    expect(codes.size).toBeGreaterThan(7);
    expect(plans).toBeGreaterThan(5);
  },
);

test('mutated plans are refused with a code, or are plans', { timeout: 60_000 }, () => {
  const next = random(7);
  const plans = GOLDEN.map((text) => compiled(text, { resolve }).json);
  const codes = new Set<string>();
  for (let round = 0; round < 600; round++) {
    const text = mutate(plans[round % plans.length]!, next);
    try {
      const { plan } = parsePlan(text);
      expect(planProblems(plan)).toEqual([]);
      codes.add('ok');
    } catch (thrown) {
      if (!(thrown instanceof AppError)) throw thrown;
      codes.add(thrown.code);
    }
  }
  expect([...codes]).toEqual(expect.arrayContaining(['INVALID_STEP_SCHEMA']));
});
