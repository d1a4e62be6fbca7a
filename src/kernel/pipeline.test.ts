import { expect, test } from 'vitest';
import { CATALOGUE } from '../contracts/catalogue.ts';
import type { Plan, Task } from '../contracts/plan.ts';
import { buildPlan, type ShortStep } from '../testing/build-plan.ts';
import { describeEvent, Scenario } from '../testing/scenario.ts';
import type { EventDraft } from './commands.ts';
import { afterOutcome, type Instruction, nextInPipeline, type PipelineAnswer, renderFields } from './pipeline.ts';
import { compilePipeline } from './pipeline-plan.ts';
import type { PipelineContext, TaskOutcome } from './pipeline-scope.ts';
import { resumePipeline } from './pipeline-state.ts';

const task = (name: string, more: Partial<Task> = {}): Task => ({ name, kind: 'noop', with: {}, ...more });
const rules = (...list: NonNullable<Task['policy']>['rules']): Partial<Task> => ({ policy: { rules: list } });
const ok = (value: unknown = null): TaskOutcome => ({ status: 'ok', result: { value } });
const error = (code = 'BOOM', retryable = true): TaskOutcome => ({
  status: 'error',
  error: { kind: 'http', code, message: `${code}!`, retryable },
  http: { status: 503 },
});

/** A step that runs, and its pipeline, driven by outcomes. */
class Driver {
  readonly context: PipelineContext;
  readonly events: EventDraft[] = [];
  answer: Instruction;

  constructor(
    tasks: Task[],
    more: Partial<ShortStep> = {},
    plan: Partial<Plan> = {},
    extra: Partial<PipelineContext> = {},
  ) {
    const run = new Scenario(buildPlan([{ stepId: 's', tasks, ...more }], plan));
    run.start();
    run.begin('s');
    this.context = { plan: run.plan, state: run.state, stepId: 's', attempt: 1, ...extra };
    this.answer = this.#take(nextInPipeline(this.context));
  }

  #take(answer: PipelineAnswer): Instruction {
    if ('need' in answer) throw new Error(`needs ${answer.need}`);
    this.events.push(...answer.events);
    this.answer = answer;
    return answer;
  }

  /** The task that is to run, or how it ended. */
  get doing(): string {
    const { answer } = this;
    if (answer.do === 'run') return `${answer.entity}@${answer.attempt}`;
    return answer.do === 'wait' ? `wait ${answer.millis}` : answer.settled.status;
  }

  give(outcome: TaskOutcome): string {
    this.#take(afterOutcome(this.context, this.answer.state, outcome));
    return this.doing;
  }

  goOn(): string {
    this.#take(nextInPipeline(this.context, this.answer.state));
    return this.doing;
  }

  get told(): string[] {
    return this.events.map(describeEvent);
  }

  get end() {
    if (this.answer.do !== 'end') throw new Error(this.doing);
    return this.answer;
  }
}

test('tasks run one after the other, and the last result is the step’s', () => {
  const run = new Driver([task('get'), task('put')]);
  expect(run.doing).toBe('s/get:1@1');
  expect(run.give(ok({ n: 1 }))).toBe('s/put:1@1');
  expect(run.give(ok('stored'))).toBe('completed');
  expect(run.told).toEqual(['TaskStarted s/get:1', 'TaskDone s/get:1', 'TaskStarted s/put:1', 'TaskDone s/put:1']);
  expect(run.end.settled).toEqual({
    status: 'completed',
    result: { value: 'stored' },
    taskResults: { get: { value: { n: 1 } }, put: { value: 'stored' } },
  });
});

test('a step without tasks ends at once', () => {
  expect(new Driver([]).end.settled).toEqual({ status: 'completed', result: { value: null } });
});

test('without a policy an error fails the step, and the tasks after it do not run', () => {
  const run = new Driver([task('get'), task('put')]);
  expect(run.give(error())).toBe('failed');
  expect(run.end.settled).toMatchObject({
    status: 'failed',
    error: { category: 'http', code: 'BOOM', retryable: true },
  });
  expect(run.told.at(-1)).toBe('TaskFailed s/get:1');
});

test('NE-3b retries are attempts under one task run and end in exactly one task.done or task.failed', () => {
  const policy = rules({
    when: "{{ outcome.status == 'error' }}",
    then: { do: 'retry', attempts: 3, backoff: 'fixed', delay: 2 },
  });
  const run = new Driver([task('get', policy)]);
  expect(run.give(error())).toBe('wait 2000');
  expect(run.goOn()).toBe('s/get:1@2');
  expect(run.give(ok('fine'))).toBe('completed');
  expect(run.told).toEqual([
    'TaskStarted s/get:1',
    'TaskAttemptStarted s/get:1@1',
    'TaskAttemptFailed s/get:1@1',
    'PolicyTaskEvaluated s/get:1@1',
    'TaskAttemptStarted s/get:1@2',
    'TaskAttemptDone s/get:1@2',
    'PolicyTaskEvaluated s/get:1@2',
    'TaskDone s/get:1',
  ]);
  const exhausted = new Driver([task('get', policy)]);
  for (let i = 0; i < 2; i++) {
    exhausted.give(error());
    exhausted.goOn();
  }
  expect(exhausted.give(error('LAST'))).toBe('failed');
  expect(exhausted.told.filter((line) => /^Task(Done|Failed)/.test(line))).toEqual(['TaskFailed s/get:1']);
  expect(exhausted.end.settled).toMatchObject({ error: { code: 'LAST' } });
});

test('NE-3c policy.task.evaluated names the rule that matched and the action that was taken', () => {
  const run = new Driver([
    task(
      'get',
      rules(
        { when: '{{ outcome.http.status == 404 }}', then: { do: 'break' } },
        { when: '{{ outcome.error.retryable }}', then: { do: 'retry', attempts: 5, backoff: 'exponential', delay: 1 } },
      ),
    ),
  ]);
  run.give(error());
  const evaluated = run.events.find((event) => event.eventType === 'PolicyTaskEvaluated');
  expect(evaluated?.payload).toEqual({
    matchedRuleIndex: 1,
    action: { do: 'retry', attempts: 5, backoff: 'exponential', delay: 1 },
  });
});

test('the first rule that matches wins, a rule without a condition is the else, and no match means continue', () => {
  const judged = (outcome: TaskOutcome, more: Partial<NonNullable<Task['policy']>> = {}) => {
    const policy = { rules: [{ when: "{{ outcome.data == 'a' }}", then: { do: 'break' as const } }], ...more };
    return new Driver([task('one', { policy }), task('two')]).give(outcome);
  };
  expect(judged(ok('a'))).toBe('completed');
  expect(judged(ok('b'))).toBe('s/two:1@1');
  expect(judged(error())).toBe('s/two:1@1');
  expect(judged(error(), { onUnmatched: 'fail' })).toBe('failed');
  expect(judged(ok('b'), { rules: [{ then: { do: 'fail' } }] })).toBe('failed');
});

test('jump sets the position, by label or to the task before, as another run of that task', () => {
  const again = rules({ when: '{{ _prev.more }}', then: { do: 'jump', to: 'page' } });
  const run = new Driver([task('page'), task('check', again)]);
  run.give(ok({ more: true }));
  expect(run.give(ok({ more: true }))).toBe('s/page:2@1');
  run.give(ok({ more: false }));
  expect(run.give(ok())).toBe('completed');
  const back = rules({ when: "{{ output.result == 'back' }}", then: { do: 'jump', to: 'previous' } });
  const other = new Driver([task('one'), task('two', back)]);
  other.give(ok());
  expect(other.give(ok('back'))).toBe('s/one:2@1');
});

test('a jump without an end is stopped with JUMP_LIMIT', () => {
  const run = new Driver([task('a', rules({ then: { do: 'jump', to: 'a' } }))], {}, { limits: { maxJumps: 3 } });
  for (let i = 0; i < 3; i++) expect(run.give(ok())).toBe(`s/a:${i + 2}@1`);
  expect(run.give(ok())).toBe('failed');
  expect(run.end.settled).toMatchObject({ error: { code: 'JUMP_LIMIT' } });
});

test('nothing in a policy catches a denial, a rejected approval or a cancellation', () => {
  for (const code of ['POLICY_DENIED', 'APPROVAL_REJECTED', 'APPROVAL_EXPIRED', 'CANCELLED']) {
    const run = new Driver([task('a', rules({ then: { do: 'continue' } })), task('b')]);
    expect(run.give(error(code))).toBe('failed');
    expect(run.end.settled).toMatchObject({ error: { code } });
  }
});

test('RQ-6.2b a retry rule without a delay waits about 5 s, 30 s, 2 min, 10 min', () => {
  const run = new Driver([task('a', rules({ then: { do: 'retry', attempts: 9 } }))]);
  const waits: string[] = [];
  for (let i = 0; i < 5; i++) {
    waits.push(run.give(error()));
    run.goOn();
  }
  expect(waits).toEqual(['wait 5000', 'wait 30000', 'wait 120000', 'wait 600000', 'wait 600000']);
});

test('set writes to ctx, to the iteration or to a name of the pipeline, and later tasks see all three', () => {
  const first = task('one', {
    set: { 'ctx.n': '{{ outcome.result.n }}', 'iter.seen': true, local: '{{ ctx.n is defined }}' },
  });
  const second = task('two', { with: { all: '{{ [ctx.n, iter.seen, local, one.n, _prev.n, _task, _attempt] }}' } });
  const run = new Driver([first, second]);
  run.give(ok({ n: 7 }));
  expect(renderFields(run.context, run.answer.state, {})).toEqual({
    fields: { all: [7, true, false, 7, 7, 'two', 1] },
    input: undefined,
  });
  run.give(ok());
  expect(run.end.set).toEqual({ n: 7 });
});

test('hooks assign before each try, after each try and once at the end; a task’s set runs only after success', () => {
  const policy: Task['policy'] = {
    before: [{ before: '{{ _attempt }}' }],
    after: [{ after: '{{ outcome.status }}' }],
    finally: [{ 'ctx.last': '{{ before }}-{{ after }}' }],
    rules: [
      {
        when: "{{ outcome.status == 'error' and _attempt < 2 }}",
        then: { do: 'retry', attempts: 5, delay: 0, set: { 'ctx.retried': true } },
      },
    ],
  };
  const run = new Driver([task('a', { policy, set: { 'ctx.done': 1 } })]);
  run.give(error());
  run.goOn();
  run.give(ok());
  expect(run.end.set).toEqual({ retried: true, done: 1, last: '2-ok' });
  const failing = new Driver([
    task('a', { policy: { ...policy, rules: [{ then: { do: 'fail' } }] }, set: { 'ctx.done': 1 } }),
  ]);
  failing.give(error());
  expect(failing.end.set).toEqual({ last: '1-error' });
});

test('a step that fails still hands over what it wrote to ctx: a handler may want to read it', () => {
  const run = new Driver([task('a', rules({ then: { do: 'fail', set: { 'ctx.why': '{{ outcome.error.code }}' } } }))]);
  run.give(error('E42'));
  expect(run.end).toMatchObject({ set: { why: 'E42' }, settled: { status: 'failed' } });
});

test('the step’s own set sees its result under its own name and its tasks', () => {
  const run = new Driver([task('get'), task('put')], { set: { 'ctx.total': '{{ s.n + get.n }}' } });
  run.give(ok({ n: 1 }));
  run.give(ok({ n: 2 }));
  expect(run.end.set).toEqual({ total: 3 });
  const broken = new Driver([task('get')], { set: { 'ctx.x': '{{ nope }}' } });
  expect(broken.give(ok())).toBe('failed');
  expect(broken.end.settled).toMatchObject({ error: { code: 'TEMPLATE_UNDEFINED' } });
});

test('a template that fails in a hook or a rule fails the task with its code', () => {
  const before = new Driver([task('a', { policy: { rules: [], before: [{ x: '{{ nope }}' }] } })]);
  expect(before.doing).toBe('failed');
  expect(before.told).toEqual(['TaskStarted s/a:1', 'TaskFailed s/a:1']);
  const rule = new Driver([task('a', rules({ when: '{{ nope }}', then: { do: 'continue' } }))]);
  expect(rule.give(ok())).toBe('failed');
  expect(rule.end.settled).toMatchObject({ error: { code: 'TEMPLATE_UNDEFINED' } });
});

test('an iteration sees its item, its index and its parent, and its entities carry its index', () => {
  const loop = { in: [], iterator: 'city', mode: 'parallel' as const };
  const iteration = { index: 3, item: 'Oslo', parent: { index: 9 } };
  const fields = { all: '{{ [city, iter.city, iter.index, iter.parent.index] }}' };
  const run = new Driver([task('a', { with: fields })], { loop }, {}, { iteration });
  expect(run.doing).toBe('s/3/a:1@1');
  expect(renderFields(run.context, run.answer.state, {})).toMatchObject({ fields: { all: ['Oslo', 'Oslo', 3, 9] } });
});

test('keychain is visible in tool fields and nowhere else', () => {
  const run = new Driver([task('a', { with: { auth: '{{ keychain.db.password }}' } })], {
    input: { x: '{{ 1 + 1 }}' },
  });
  expect(renderFields(run.context, run.answer.state, { db: { password: 'hunter2' } })).toEqual({
    fields: { auth: 'hunter2' },
    input: { x: 2 },
  });
  expect(JSON.stringify(run.events)).not.toContain('hunter2');
  const leaking = new Driver([task('a', { set: { 'ctx.x': '{{ keychain.db }}' } })]);
  expect(leaking.give(ok())).toBe('failed');
});

test('a time-out may be a template, and a value from outside is asked for', () => {
  const timed = new Driver([task('a', { timeout: '{{ workload.limit * 2 }}' })], {}, { workload: { limit: 1.5 } });
  expect(timed.answer).toMatchObject({ do: 'run', timeoutMs: 3000 });
  const run = new Driver([task('get'), task('put', { with: { rows: '{{ get.rows }}' } })]);
  run.give({ status: 'ok', result: { ref: { uri: 's3://x', kind: 'r' }, store: 's3', totalBytes: 1 } });
  expect(renderFields(run.context, run.answer.state, {})).toEqual({ need: ['s3://x'] });
  const context = { ...run.context, values: { 's3://x': { rows: [1] } } };
  expect(renderFields(context, run.answer.state, {})).toMatchObject({ fields: { rows: [1] } });
});

test('a redelivered step goes on from its recorded outcomes: after every prefix of the events it ends the same', () => {
  const retry = {
    when: "{{ outcome.status == 'error' }}",
    then: { do: 'retry' as const, attempts: 4, delay: 0, set: { 'ctx.tries': '{{ _attempt }}' } },
  };
  const tasks = [
    task('get', {
      policy: { rules: [retry], before: [{ mark: '{{ _attempt }}' }] },
      set: { 'ctx.mark': '{{ mark }}', note: 'n' },
    }),
    task(
      'check',
      rules({ when: '{{ ctx.round is not defined }}', then: { do: 'jump', to: 'get', set: { 'ctx.round': 2 } } }),
    ),
    task('put', { set: { 'ctx.note': '{{ note }}' } }),
  ];
  const script = [error(), ok({ n: 1 }), ok(), ok({ n: 2 }), ok(), ok('end')];
  const whole = new Driver(tasks);
  const cuts: { outcome: number; events: number }[] = [];
  script.forEach((outcome, i) => {
    whole.give(outcome);
    if (whole.answer.do === 'wait') whole.goOn();
    cuts.push({ outcome: i + 1, events: whole.events.length });
  });
  expect(whole.doing).toBe('completed');
  const pipeline = compilePipeline(whole.context.plan, 's');
  for (const cut of cuts) {
    const state = resumePipeline(pipeline, 's', whole.events.slice(0, cut.events));
    let answer = nextInPipeline(whole.context, state);
    for (const outcome of script.slice(cut.outcome)) {
      if ('need' in answer || answer.do !== 'run') throw new Error('it should run');
      answer = afterOutcome(whole.context, answer.state, outcome);
      if (!('need' in answer) && answer.do === 'wait') answer = nextInPipeline(whole.context, answer.state);
    }
    expect(answer).toMatchObject({ do: 'end', settled: whole.end.settled, set: whole.end.set });
  }
});

test('NE-5a the pipeline emits what a worker may emit and nothing of the control plane', () => {
  const run = new Driver([
    task('a', rules({ when: '{{ _attempt < 3 }}', then: { do: 'retry', attempts: 3, delay: 0 } })),
  ]);
  run.give(error());
  run.goOn();
  run.give(ok());
  run.goOn();
  run.give(ok());
  for (const event of run.events) expect(CATALOGUE[event.eventType].emitters).toContain('worker');
});
