import { expect, test } from 'vitest';
import { buildPlan } from '../testing/build-plan.ts';
import { Scenario } from '../testing/scenario.ts';
import type { EventDraft, Settled } from './commands.ts';
import { afterOutcome, type Instruction, nextInPipeline, type PipelineAnswer, renderFields } from './pipeline.ts';
import { CLAIM_TASK, compilePipeline } from './pipeline-plan.ts';
import type { PipelineContext, TaskOutcome } from './pipeline-scope.ts';
import { PIPELINE_START, type PipelineState, resumePipeline } from './pipeline-state.ts';

const task = (name: string, result: string) => ({ name, kind: 'noop', with: { result } });
const cursorPlan = (process: 'row' | 'frame', mode: 'fail_fast' | 'best_effort' = 'fail_fast') =>
  buildPlan([
    {
      stepId: 'drain',
      failure: { mode },
      loop: {
        mode: 'cursor',
        iterator: 'row',
        cursor: { kind: 'postgres', auth: 'pg', claim: 'take {{ iter.frame.max_rows }} of {{ iter.index }}' },
        frame: { max_rows: 5, process },
      },
      tasks: [task('first', '{{ iter.row }}'), task('second', '{{ [iter.row, first, _prev] }}')],
    },
  ]);

/** The context of frame 2 of a run under way. */
function contextOf(plan: ReturnType<typeof cursorPlan>): PipelineContext {
  const run = new Scenario(plan);
  run.start();
  run.begin('drain');
  return { plan, state: run.state, stepId: 'drain', attempt: 1, iteration: { index: 2, item: undefined } };
}

const known = (answer: PipelineAnswer): Instruction => {
  if ('need' in answer) throw new Error('nothing is stored outside');
  return answer;
};

interface Played {
  readonly calls: string[];
  readonly events: EventDraft[];
  readonly settled: Settled;
}

/** Runs the pipeline from a state to its end; the claim gives these rows, and the call of `fails` fails. */
function play(context: PipelineContext, rows: readonly unknown[], from: PipelineState, fails?: string): Played {
  const calls: string[] = [];
  const events: EventDraft[] = [];
  for (let answer = known(nextInPipeline(context, from)); ; ) {
    events.push(...answer.events);
    if (answer.do === 'end') return { calls, events, settled: answer.settled };
    if (answer.do === 'wait') throw new Error('nothing is retried');
    const { state } = answer;
    const rendered = renderFields(context, state, {});
    const fields = 'fields' in rendered ? rendered.fields : {};
    const call = `${answer.task.name} ${JSON.stringify(fields['command'] ?? fields['result'])}`;
    calls.push(call);
    const error = { kind: 'test', code: 'BAD', message: 'bad', retryable: false };
    const isClaim = answer.task.name === CLAIM_TASK;
    const value = isClaim ? { rows, row_count: rows.length } : fields['result'];
    const outcome: TaskOutcome = call === fails ? { status: 'error', error } : { status: 'ok', result: { value } };
    answer = known(afterOutcome(context, state, outcome));
  }
}

test('a frame is claimed once, and the tasks run for each of its rows with names of their own', () => {
  const { calls, settled } = play(contextOf(cursorPlan('row')), ['a', 'b'], PIPELINE_START);
  expect(calls).toEqual([
    `${CLAIM_TASK} "take 5 of 2"`,
    'first "a"',
    'second ["a","a","a"]',
    'first "b"',
    'second ["b","b","b"]',
  ]);
  expect(settled).toEqual({
    status: 'completed',
    rows: 2,
    rowResults: [{ value: ['a', 'a', 'a'] }, { value: ['b', 'b', 'b'] }],
  });
});

test('a frame as a whole is one item, and a claim without rows ends the cursor', () => {
  const context = contextOf(cursorPlan('frame'));
  expect(play(context, ['a', 'b'], PIPELINE_START).calls.at(-1)).toBe('second [["a","b"],["a","b"],["a","b"]]');
  expect(play(context, [], PIPELINE_START)).toMatchObject({
    calls: [expect.stringContaining(CLAIM_TASK)],
    settled: { status: 'completed', exhausted: true },
  });
});

test('a claim that fails, or whose rows were lost, ends the cursor with a failure', () => {
  const context = contextOf(cursorPlan('row', 'best_effort'));
  const claim = `${CLAIM_TASK} "take 5 of 2"`;
  expect(play(context, ['a'], PIPELINE_START, claim).settled).toMatchObject({
    status: 'failed',
    exhausted: true,
    error: { code: 'BAD' },
  });
  const begun = known(nextInPipeline(context, PIPELINE_START));
  const lost = known(
    afterOutcome(context, begun.state, { status: 'ok', result: { value: { rows: [], row_count: 900 } } }),
  );
  expect(lost).toMatchObject({
    do: 'end',
    settled: { status: 'failed', exhausted: true, error: { code: 'RESULT_TOO_LARGE' } },
  });
});

test('a row that fails ends the frame, or is passed over where the step says so', () => {
  const bad = 'first "b"';
  const strict = play(contextOf(cursorPlan('row')), ['a', 'b', 'c'], PIPELINE_START, bad);
  expect([strict.calls.at(-1), strict.settled.status]).toEqual([bad, 'failed']);
  const lenient = play(contextOf(cursorPlan('row', 'best_effort')), ['a', 'b', 'c'], PIPELINE_START, bad);
  expect(lenient.calls.slice(-2)).toEqual(['first "c"', 'second ["c","c","c"]']);
  expect(lenient.settled).toMatchObject({ status: 'failed', error: { code: 'BAD' } });
});

test('taken up after any task that was recorded, a frame goes on with what was not done', () => {
  for (const mode of ['fail_fast', 'best_effort'] as const) {
    const plan = cursorPlan('row', mode);
    const context = contextOf(plan);
    for (const fails of [undefined, 'first "b"', 'second ["c","c","c"]']) {
      const whole = play(context, ['a', 'b', 'c'], PIPELINE_START, fails);
      let done = 0;
      whole.events.forEach((event, at) => {
        if (event.eventType === 'TaskDone' || event.eventType === 'TaskFailed') done += 1;
        const state = resumePipeline(compilePipeline(plan, 'drain'), 'drain/2', whole.events.slice(0, at + 1));
        const rest = play(context, ['a', 'b', 'c'], state, fails);
        expect([fails, at, rest.calls]).toEqual([fails, at, whole.calls.slice(done)]);
        expect(rest.settled).toEqual(whole.settled);
      });
    }
  }
});
