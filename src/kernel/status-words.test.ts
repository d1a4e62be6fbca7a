import { expect, test } from 'vitest';
import { RUN_STATUSES, RUN_SUBSTATUSES, STEP_STATUSES } from '../contracts/states.ts';
import { recordLog, runStarted, type ShortEvent } from '../testing/record-log.ts';
import { fold } from './evolve.ts';
import { initialState } from './state.ts';
import { RUN_WORDS, runWord, STEP_WORDS, statusMessage, stepSituation, stepWord, substatus } from './status-words.ts';
import { findStep } from './step-state.ts';

const after = (...events: ShortEvent[]) => fold(initialState('r', { keepFinished: true }), recordLog('r', events));
const started = (step: string): ShortEvent[] => [
  { type: 'StepScheduled', step },
  { type: 'StepStarted', step },
];
const wait = (step: string, kind: string, details = {}): ShortEvent => ({
  type: 'WaitStarted',
  step,
  entity: `${step}/wait:1`,
  payload: { kind, details },
});
const ended = (step: string, kind: string, outcome: string): ShortEvent => ({
  type: 'WaitEnded',
  step,
  entity: `${step}/wait:1`,
  payload: { kind, outcome },
});

test('RQ-2.1a the queue’s word for a run is a total function of status and substatus', () => {
  const table: Record<string, string> = {
    PENDING: 'queued',
    APPROVED: 'queued',
    RUNNING: 'running',
    'RUNNING WAITING_APPROVAL': 'waiting_approval',
    'RUNNING RETRYING': 'failed_retryable',
    PAUSED: 'running',
    COMPLETED: 'succeeded',
    FAILED: 'failed_terminal',
    CANCELLED: 'canceled',
  };
  for (const status of RUN_STATUSES) {
    for (const word of [undefined, ...RUN_SUBSTATUSES, 'temporal/BACKLOG']) {
      const expected = table[`${status} ${word}`] ?? table[status];
      expect(runWord(status, word)).toBe(expected);
      expect(RUN_WORDS).toContain(runWord(status, word));
    }
  }
});

test('RQ-2.1a a run takes the words of the diagram one after the other', () => {
  const run = [
    { type: 'RunQueued' },
    runStarted('r'),
    ...started('a'),
    wait('a', 'approval'),
    ended('a', 'approval', 'approved'),
    { type: 'TaskDone', step: 'a', entity: 'a/t:1', payload: {} },
    { type: 'StepFailed', step: 'a', payload: { error: {} } },
    { type: 'StepScheduled', step: 'a', attempt: 2, payload: { cause: { kind: 'retry' } } },
    { type: 'StepDelayed', step: 'a', entity: 'a/wait:2', attempt: 2, payload: { until: 'x', reason: 'RETRY' } },
    { type: 'StepStarted', step: 'a', attempt: 2 },
    { type: 'StepCompleted', step: 'a', attempt: 2 },
    { type: 'RunCompleted' },
  ];
  const words: string[] = [];
  for (let i = 1; i <= run.length; i++) {
    const state = after(...run.slice(0, i));
    const word = runWord(state.run.status ?? 'PENDING', substatus(state));
    if (words.at(-1) !== word) words.push(word);
  }
  expect(words).toEqual([
    'queued',
    'running',
    'waiting_approval',
    'running',
    'failed_retryable',
    'running',
    'succeeded',
  ]);
});

test('RQ-2.2a a step takes the words of the diagram, in every situation', () => {
  const seen: string[] = [];
  const look = (...events: ShortEvent[]) => {
    const state = after(runStarted('r'), ...events);
    const word = stepWord(stepSituation(state, findStep(state, 'a')!));
    seen.push(word);
  };
  const first = started('a');
  look(first[0]!);
  look(...first);
  look(...first, wait('a', 'approval'));
  look(...first, wait('a', 'approval'), ended('a', 'approval', 'approved'));
  look(...first, { type: 'StepCompleted', step: 'a' });
  expect(seen).toEqual(['ready', 'running', 'waiting_approval', 'ready', 'succeeded']);
  seen.length = 0;
  look(...first, wait('a', 'timer', { reason: 'RETRY' }));
  look(...first, { type: 'StepFailed', step: 'a', payload: { error: { code: 'E' } } });
  look(...first, { type: 'StepFailed', step: 'a', payload: { error: { code: 'CANCELLED' } } });
  look({ type: 'StepSkipped', step: 'a', payload: { reason: 'x', code: 'CANCELLED' } });
  look({ type: 'StepSkipped', step: 'a', payload: { reason: 'not needed' } });
  expect(seen).toEqual(['failed_retryable', 'failed_terminal', 'canceled', 'canceled', 'succeeded']);
  for (const status of STEP_STATUSES) {
    for (const waitingApproval of [true, false]) {
      for (const waitingRetry of [true, false]) {
        for (const leased of [true, false]) {
          for (const code of [undefined, 'CANCELLED', 'X']) {
            expect(STEP_WORDS).toContain(stepWord({ status, code, waitingApproval, waitingRetry, leased }));
          }
        }
      }
    }
  }
  expect(stepWord({ status: 'RUNNING', leased: false })).toBe('ready');
});

test('a pause shows DRAINING and counts what is in flight, until the last step ended', () => {
  const paused = [runStarted('r'), ...started('a'), ...started('b'), { type: 'RunPaused' }];
  expect(substatus(after(...paused))).toBe('DRAINING');
  expect(statusMessage(after(...paused))).toBe('Workflow paused. Waiting for 2 in-flight tasks to complete.');
  const one = [...paused, { type: 'StepCompleted', step: 'a' }];
  expect(statusMessage(after(...one))).toBe('Workflow paused. Waiting for 1 in-flight task to complete.');
  const none = after(...one, { type: 'StepCompleted', step: 'b' });
  expect([substatus(none), statusMessage(none)]).toEqual([undefined, 'Workflow paused.']);
  expect(
    substatus(after(runStarted('r'), ...started('a'), wait('a', 'approval'), { type: 'RunPaused' })),
  ).toBeUndefined();
});

test('WAITING_APPROVAL and RETRYING are shown only if nothing else runs or is ready', () => {
  const waiting = [runStarted('r'), ...started('a'), wait('a', 'approval')];
  expect(substatus(after(...waiting))).toBe('WAITING_APPROVAL');
  expect(substatus(after(...waiting, { type: 'StepScheduled', step: 'b' }))).toBeUndefined();
  expect(substatus(after(...waiting, ...started('b')))).toBeUndefined();
  const both = after(...waiting, ...started('b'), {
    type: 'WaitStarted',
    step: 'b',
    entity: 'b/wait:1',
    payload: { kind: 'timer', details: { reason: 'RETRY' } },
  });
  expect(substatus(both)).toBe('WAITING_APPROVAL');
});

test('the plan gate shows PENDING with WAITING_APPROVAL until the plan is approved', () => {
  const asked = [
    { type: 'PlaybookExecutionRequested', payload: {} },
    { type: 'PlaybookRequestEvaluated', payload: { decision: 'accept', gate: 'approval' } },
  ];
  expect(substatus(after(...asked))).toBe('WAITING_APPROVAL');
  expect(substatus(after(...asked, { type: 'RunApproved' }))).toBeUndefined();
});

test('WE-2.1.2b what only the engine knows is merged in by rank, and a word of its own is shown as it is', () => {
  const waiting = after(runStarted('r'), ...started('a'), wait('a', 'approval'));
  expect(substatus(waiting, 'RECOVERING')).toBe('RECOVERING');
  expect(substatus(waiting, 'temporal/WORKFLOW_TASK_BACKLOG')).toBe('WAITING_APPROVAL');
  const running = after(runStarted('r'), ...started('a'));
  expect(substatus(running, 'temporal/WORKFLOW_TASK_BACKLOG')).toBe('temporal/WORKFLOW_TASK_BACKLOG');
  expect(substatus(after(runStarted('r'), { type: 'RunCompleted' }), 'RECOVERING')).toBeUndefined();
});

test('WE-2.1.2c each canonical substatus is shown where it applies: three from the log, two from the engine', () => {
  const retrying = after(
    runStarted('r'),
    ...started('a'),
    { type: 'StepFailed', step: 'a', payload: { error: {} } },
    { type: 'StepScheduled', step: 'a', attempt: 2, payload: { cause: { kind: 'retry' } } },
    { type: 'StepDelayed', step: 'a', entity: 'a/wait:1', attempt: 2, payload: { until: 'x', reason: 'RETRY' } },
  );
  const shown = [
    substatus(after(runStarted('r'), ...started('a'), { type: 'RunPaused' })),
    substatus(after(runStarted('r'), ...started('a')), 'CONTINUE_AS_NEW'),
    substatus(after(runStarted('r'), ...started('a')), 'RECOVERING'),
    substatus(after(runStarted('r'), ...started('a'), wait('a', 'approval'))),
    substatus(retrying),
  ];
  expect(shown).toEqual([...RUN_SUBSTATUSES]);
});
