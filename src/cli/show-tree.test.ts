import { describe, expect, test } from 'vitest';
import { RunTree, type StepLine } from './run-tree.ts';
import { progressBar, treeLines } from './show-tree.ts';
import { crop, displayWidth, Terminal } from './terminal.ts';

const terminal = new Terminal({ json: false, verbose: false });

function line(stepId: string, more: Partial<StepLine> = {}): StepLine {
  return {
    stepId,
    mark: 'running',
    attempt: 1,
    tries: 1,
    startedAt: 0,
    durationMs: undefined,
    loop: undefined,
    reused: undefined,
    note: undefined,
    children: [],
    ...more,
  };
}

/** Long and wide names, a loop, a failure with a long message, and runs below runs. */
function tree(): RunTree {
  const make = (depth: number): RunTree => {
    const run = new RunTree(`run ${depth}`);
    const children = depth < 12 ? [make(depth + 1)] : [];
    for (const step of [
      line('a_step_with_quite_a_long_name_that_does_not_fit_anywhere', { attempt: 3, tries: 2 }),
      line('名前の長いステップ🚀🚀🚀', { loop: { count: 12_345, ended: 678, failed: 9 } }),
      line('fails', { mark: 'failed', durationMs: 61_000, note: `HTTP_ERROR: ${'x'.repeat(300)}\u001b[31m\nnext` }),
      line('sub', { children }),
    ])
      run.steps.set(step.stepId, step);
    return run;
  };
  return make(0);
}

describe.each([20, 21, 24, 30, 40, 49, 50, 60, 79, 80, 120, 200])('in %i columns', (width) => {
  test('no line is wider than the terminal, and none has a sign that moves the cursor', () => {
    const lines = treeLines(tree(), terminal, { now: 90_000, spinner: '|', width, bars: true });
    expect(lines).toHaveLength(13 * 4);
    for (const text of lines) {
      expect(displayWidth(text)).toBeLessThanOrEqual(width);
      expect(text).not.toMatch(/[\n\r]/);
    }
  });

  test('of a tree that is too high the last lines are shown, and how many are missing', () => {
    const lines = treeLines(tree(), terminal, { now: 0, width, rows: 5 });
    expect(lines).toHaveLength(5);
    expect(lines[0]).toContain('48 more');
    for (const text of lines) expect(displayWidth(text)).toBeLessThanOrEqual(width);
  });
});

test('a bar is as wide as it should be, empty at the beginning and full only at the end', () => {
  const { bar, rest } = terminal.symbols;
  expect(progressBar(0, 7, 10, terminal)).toBe(rest.repeat(10));
  expect(progressBar(6, 7, 10, terminal)).toBe(`${bar.repeat(8)}${rest.repeat(2)}`);
  expect(progressBar(7, 7, 10, terminal)).toBe(bar.repeat(10));
  expect(progressBar(0, 0, 4, terminal)).toBe(bar.repeat(4));
});

test('cropping never cuts a wide sign in two and never gives more than there is room', () => {
  for (let width = 1; width < 20; width++)
    expect(displayWidth(crop('日本語のテキスト with more', width))).toBeLessThanOrEqual(width);
});
