import { expect, test } from 'vitest';
import { CATALOGUE, EVENT_TYPES, type EventRow } from '../contracts/catalogue.ts';
import { RUN_STATUSES, type RunStatus, STEP_STATUSES } from '../contracts/states.ts';
import {
  recordLog,
  runStarted,
  type ShortEvent,
  TEST_CONTEXT,
  TEST_PLAN_REF,
  testTime,
} from '../testing/record-log.ts';
import { detectNonContiguous, evolve, fold, foldWithReport } from './evolve.ts';
import { initialState } from './state.ts';
import { attemptLabel, toSnapshot } from './to-snapshot.ts';

const view = () => initialState('r', { keepFinished: true });
const play = (...events: ShortEvent[]) => foldWithReport(view(), recordLog('r', events));
const snap = (...events: ShortEvent[]) => toSnapshot(play(...events).state);
const ev = (type: string, step?: string, payload?: Record<string, unknown>): ShortEvent => ({
  type,
  ...(step === undefined ? {} : { step }),
  ...(payload === undefined ? {} : { payload }),
});
const error = { category: 'tool', code: 'BOOM', message: 'it broke', retryable: false };

/** The shortest log that brings a run into a status. */
const WAY: Record<RunStatus | 'NONE', ShortEvent[]> = {
  NONE: [],
  PENDING: [ev('RunQueued')],
  APPROVED: [ev('RunApproved')],
  RUNNING: [runStarted('r')],
  PAUSED: [runStarted('r'), ev('RunPaused')],
  COMPLETED: [runStarted('r'), ev('RunCompleted')],
  FAILED: [runStarted('r'), ev('RunFailed')],
  CANCELLED: [runStarted('r'), ev('RunCancelled')],
};

test('ES-1.2b each canonical event has its documented effect on the status of run and step', () => {
  expect(snap().status).toBe('PENDING');
  expect(snap(ev('RunApproved')).status).toBe('APPROVED');
  expect(snap(runStarted('r')).status).toBe('RUNNING');
  expect(snap(runStarted('r'), ev('RunPaused')).status).toBe('PAUSED');
  expect(snap(runStarted('r'), ev('RunPaused'), ev('RunResumed')).status).toBe('RUNNING');
  expect(snap(runStarted('r'), ev('RunCompleted')).status).toBe('COMPLETED');
  expect(snap(runStarted('r'), ev('RunFailed')).status).toBe('FAILED');
  expect(snap(runStarted('r'), ev('RunCancelled')).status).toBe('CANCELLED');
  const status = (...events: ShortEvent[]) => snap(runStarted('r'), ...events).steps[0]?.status;
  expect(status(ev('StepScheduled', 'a'))).toBe('PENDING');
  expect(status(ev('StepStarted', 'a'))).toBe('RUNNING');
  expect(status(ev('StepStarted', 'a'), ev('StepCompleted', 'a'))).toBe('SUCCESS');
  expect(status(ev('StepStarted', 'a'), ev('StepFailed', 'a', { error }))).toBe('FAILED');
  expect(status(ev('StepSkipped', 'a', { reason: 'no' }))).toBe('SKIPPED');
});

test('ES-1.2c a run moves exactly along the transitions of the settled table', () => {
  const allowed: Record<string, string> = {
    PENDING: 'PENDING APPROVED RUNNING FAILED CANCELLED',
    APPROVED: 'RUNNING FAILED CANCELLED',
    RUNNING: 'PAUSED COMPLETED FAILED CANCELLED',
    PAUSED: 'RUNNING CANCELLED',
    COMPLETED: '',
    FAILED: '',
    CANCELLED: '',
  };
  const found: Record<string, string> = {};
  for (const from of RUN_STATUSES) {
    const reached = new Set<string>();
    for (const type of EVENT_TYPES) {
      const move = (CATALOGUE[type] as EventRow).runMove;
      if (!move) continue;
      // Another occurrence, so that it is never the duplicate of an event on the way.
      const { state, violations } = play(...WAY[from], { type, attempt: 9, payload: {} });
      if (violations.length === 0) reached.add(state.run.status as string);
    }
    found[from] = RUN_STATUSES.filter((status) => reached.has(status)).join(' ');
  }
  expect(found).toEqual(allowed);
});

test('ES-1.2d terminal states are immutable, for the run and for its steps', () => {
  for (const end of ['COMPLETED', 'FAILED', 'CANCELLED'] as const) {
    const before = play(...WAY[end]).state;
    for (const type of EVENT_TYPES) {
      const { state } = play(...WAY[end], { type, step: 'a', attempt: 9, payload: { signalId: 's' } });
      expect(toSnapshot(state).status).toBe(end);
      expect(toSnapshot(state).steps).toEqual([]);
      expect(state.run.completedAt).toBe(before.run.completedAt);
    }
  }
});

test('RE-5.2a a step attempt moves PENDING > RUNNING > SUCCESS or FAILED, or PENDING > SKIPPED, and nothing else', () => {
  const way: Record<string, ShortEvent[]> = {
    PENDING: [ev('StepScheduled', 'a')],
    RUNNING: [ev('StepStarted', 'a')],
    SUCCESS: [ev('StepStarted', 'a'), ev('StepCompleted', 'a')],
    FAILED: [ev('StepStarted', 'a'), ev('StepFailed', 'a', { error })],
    SKIPPED: [ev('StepSkipped', 'a', { reason: 'x' })],
  };
  const moves: string[] = [];
  for (const from of STEP_STATUSES) {
    for (const type of ['StepStarted', 'StepCompleted', 'StepFailed', 'StepSkipped']) {
      if (way[from]!.some((event) => event.type === type)) continue;
      const { state, violations } = play(runStarted('r'), ...way[from]!, ev(type, 'a', { error, reason: 'x' }));
      const to = toSnapshot(state).steps[0]?.status;
      if (violations.length === 0) moves.push(`${from}>${to}`);
      else expect(to).toBe(from);
    }
  }
  expect(moves).toEqual(['PENDING>RUNNING', 'PENDING>SKIPPED', 'RUNNING>SUCCESS', 'RUNNING>FAILED']);
});

test('a step that nobody scheduled is PENDING, as logs of the plain lifecycle contract have it', () => {
  const { state, violations } = play(runStarted('r'), ev('StepStarted', 'a'), ev('StepCompleted', 'a'));
  expect(violations).toEqual([]);
  expect(toSnapshot(state).steps).toMatchObject([{ stepId: 'a', status: 'SUCCESS', logicalAttemptId: 1 }]);
});

test('RE-5.3c an invalid event is ignored, marks the run INCONSISTENT and is reported, and the terminal status stays', () => {
  const { state, violations } = play(
    runStarted('r'),
    ev('StepStarted', 'a'),
    ev('StepCompleted', 'a'),
    ev('StepFailed', 'a', { error }),
    ev('RunCompleted'),
    ev('RunFailed', undefined, { error }),
  );
  const snapshot = toSnapshot(state);
  expect(snapshot.status).toBe('COMPLETED');
  expect(snapshot.steps[0]).toMatchObject({ status: 'SUCCESS' });
  expect(snapshot.steps[0]).not.toHaveProperty('error');
  expect(snapshot.failedSteps).toBe(0);
  expect(snapshot.metadata.inconsistent).toBe(true);
  expect(snapshot.lastEventSeq).toBe(6);
  expect(violations).toEqual([
    {
      runSeq: 4,
      eventId: '00000000-0000-4000-8000-000000000004',
      eventType: 'StepFailed',
      stepId: 'a',
      prior: 'SUCCESS',
      attempted: 'FAILED',
    },
    {
      runSeq: 6,
      eventId: '00000000-0000-4000-8000-000000000006',
      eventType: 'RunFailed',
      prior: 'COMPLETED',
      attempted: 'FAILED',
    },
  ]);
});

test('ES-A1 RunStarted sets status, engineRunRef, startedAt and the watermark; the same key again only moves the watermark', () => {
  const first = play(runStarted('r'));
  expect(toSnapshot(first.state)).toMatchObject({
    status: 'RUNNING',
    engineRunRef: { provider: 'mock', workflowId: 'wf-r', runId: 'r' },
    startedAt: testTime(0),
    lastEventSeq: 1,
  });
  const again = { ...runStarted('r'), payload: { ...runStarted('r').payload, startedAt: testTime(99) } };
  const second = play(runStarted('r'), again);
  expect(second.violations).toEqual([]);
  expect(toSnapshot(second.state)).toEqual({ ...toSnapshot(first.state), lastEventSeq: 2 });
});

test('ES-Ab RunStarted carries status, engineRunRef, engineType, planRef, context and startedAt, and the fold keeps them', () => {
  const { run } = play(runStarted('r')).state;
  expect(run.planRef).toEqual(TEST_PLAN_REF);
  expect(run.context).toEqual(TEST_CONTEXT);
  expect(run.startedAt).toBe(testTime(0));
  const required = CATALOGUE.RunStarted.payload.required;
  expect(required).toEqual(['status', 'engineRunRef', 'engineType', 'planRef', 'context', 'startedAt']);
});

test('a duplicate of any run or step move changes nothing but the watermark', () => {
  const log = [
    runStarted('r'),
    ev('StepScheduled', 'a'),
    ev('StepStarted', 'a'),
    ev('StepCompleted', 'a'),
    ev('StepSkipped', 'b', { reason: 'x' }),
    ev('RunPaused'),
    ev('RunResumed'),
    ev('RunCompleted'),
  ];
  const once = snap(...log);
  for (let i = 0; i < log.length; i++) {
    const { state, violations } = play(...log, log[i]!);
    expect(violations).toEqual([]);
    expect(toSnapshot(state)).toEqual({ ...once, lastEventSeq: log.length + 1 });
  }
});

test('the second pause is an occurrence of its own, not a duplicate of the first', () => {
  const twice = [runStarted('r'), ev('RunPaused'), ev('RunResumed'), { ...ev('RunPaused'), attempt: 2 }];
  expect(snap(...twice)).toMatchObject({ status: 'PAUSED', metadata: { inconsistent: false } });
});

test('ES-1.5d events at or below the watermark change nothing, and a fold goes on from where it stopped', () => {
  const log = recordLog('r', [runStarted('r'), ev('StepStarted', 'a'), ev('StepCompleted', 'a'), ev('RunCompleted')]);
  const whole = fold(view(), log);
  const half = fold(view(), log.slice(0, 2));
  expect(toSnapshot(fold(half, log))).toEqual(toSnapshot(whole));
  expect(evolve(whole, log[1]!)).toBe(whole);
});

test('ES-1.5b a batch that is not in rising order is refused, and nothing is reordered', () => {
  const [a, b] = recordLog('r', [runStarted('r'), ev('RunPaused')]);
  expect(() => fold(view(), [b!, a!])).toThrowError(expect.objectContaining({ code: 'INTERNAL' }));
});

test('ES-1.5e RE-1.3b an unknown type is opaque: it advances lastEventSeq and changes no state', () => {
  const before = snap(runStarted('r'), ev('StepStarted', 'a'));
  const { state, violations } = play(
    runStarted('r'),
    ev('StepStarted', 'a'),
    ev('StepTeleported', 'a', { to: 'Mars' }),
  );
  expect(violations).toEqual([]);
  expect(toSnapshot(state)).toEqual({ ...before, lastEventSeq: 3 });
});

test('ES-1.0a a gap in runSeq is folded like any other step of the sequence', () => {
  const log = recordLog('r', [
    { ...runStarted('r'), seq: 10 },
    { ...ev('StepStarted', 'a'), seq: 12 },
  ]);
  const { state, violations } = foldWithReport(view(), log);
  expect(violations).toEqual([]);
  expect(toSnapshot(state)).toMatchObject({ lastEventSeq: 12, metadata: { inconsistent: false } });
});

test('ES-1.5g detectNonContiguous tells a gap from a successor and a repetition', () => {
  expect(detectNonContiguous(10, 11)).toEqual({ observedNonContiguous: false });
  expect(detectNonContiguous(10, 12)).toEqual({ observedNonContiguous: true });
  expect(detectNonContiguous(10, 10)).toEqual({ observedNonContiguous: false });
});

test('ES-1.4a snapshots carry watermark, artifacts, times, durations and errors with code, message and retryable', () => {
  const artifact = { uri: 's3://b/1', kind: 'log', sha256: 'a'.repeat(64), sizeBytes: 3 };
  const snapshot = snap(
    runStarted('r'),
    { ...ev('StepStarted', 'a', { startedAt: testTime(2) }), engineAttempt: 3 },
    { ...ev('StepFailed', 'a', { error, artifacts: [artifact], completedAt: testTime(5) }), engineAttempt: 3 },
    ev('RunCompleted', undefined, { completedAt: testTime(61.5) }),
  );
  expect(snapshot).toEqual({
    runId: 'r',
    status: 'COMPLETED',
    lastEventSeq: 4,
    steps: [
      {
        stepId: 'a',
        status: 'FAILED',
        logicalAttemptId: 1,
        engineAttemptId: 3,
        startedAt: testTime(2),
        completedAt: testTime(5),
        artifacts: [artifact],
        error,
      },
    ],
    artifacts: [artifact],
    startedAt: testTime(0),
    completedAt: testTime(61.5),
    totalDurationMs: 61_500,
    engineRunRef: { provider: 'mock', workflowId: 'wf-r', runId: 'r' },
    failedSteps: 1,
    metadata: { inconsistent: false, stale: false },
  });
});

test('times come from the payload, else from emittedAt', () => {
  const snapshot = snap(
    { ...runStarted('r'), payload: {}, at: testTime(7) },
    { ...ev('StepStarted', 'a'), at: testTime(8) },
    { ...ev('StepCompleted', 'a'), at: testTime(9) },
    { ...ev('RunCompleted'), at: testTime(10) },
  );
  expect(snapshot).toMatchObject({ startedAt: testTime(7), completedAt: testTime(10), totalDurationMs: 3000 });
  expect(snapshot.steps[0]).toMatchObject({ startedAt: testTime(8), completedAt: testTime(9) });
});

test('ES-1.5f failedSteps counts failed steps, RunCompleted aggregates artifacts, RunFailed keeps the root cause', () => {
  const one = { uri: 's3://b/1', kind: 'log' };
  const two = { uri: 's3://b/2', kind: 'log' };
  const steps = [
    runStarted('r'),
    ev('StepStarted', 'a'),
    ev('StepCompleted', 'a', { artifacts: [one] }),
    ev('StepStarted', 'b'),
    ev('StepFailed', 'b', { error, artifacts: [one, two] }),
  ];
  expect(snap(...steps)).toMatchObject({ failedSteps: 1, artifacts: [] });
  const three = { uri: 's3://b/3', kind: 'report' };
  const done = snap(...steps, ev('RunCompleted', undefined, { artifacts: [two, three] }));
  expect(done.artifacts).toEqual([one, two, three]);
  const cause = { stepId: 'b', error };
  expect(snap(...steps, ev('RunFailed', undefined, { rootCause: cause })).rootCause).toEqual(cause);
  expect(snap(...steps, ev('RunFailed', undefined, { error })).rootCause).toEqual({ error });
  const again = [...steps, { ...ev('StepStarted', 'b'), attempt: 2 }, { ...ev('StepCompleted', 'b'), attempt: 2 }];
  expect(snap(...again).failedSteps).toBe(0);
});

test('ES-1.2f StepSkipped records its reason, StepCompleted its artifacts, StepFailed its error', () => {
  const artifact = { uri: 's3://b/1', kind: 'log' };
  const { steps } = snap(
    runStarted('r'),
    ev('StepSkipped', 'a', { reason: 'not today' }),
    ev('StepStarted', 'b'),
    ev('StepCompleted', 'b', { artifacts: [artifact] }),
    ev('StepStarted', 'c'),
    ev('StepFailed', 'c', { error: { message: 'v1 shape' } }),
  );
  expect(steps[0]).toMatchObject({ stepId: 'a', skipReason: 'not today' });
  expect(steps[1]).toMatchObject({ stepId: 'b', artifacts: [artifact] });
  expect(steps[2]?.error).toEqual({ category: 'unknown', code: 'UNKNOWN', message: 'v1 shape', retryable: false });
});

test('ES-1.2e signals are recorded as accepted or rejected and never change the status', () => {
  const signal = (type: string, id: string) => ({
    type,
    entity: `signal/${id}`,
    payload: { signalId: id, signalType: 'PAUSE', rejectedBy: 'validation', code: 'X', reason: 'x' },
  });
  for (const way of Object.values(WAY)) {
    const before = play(...way).state;
    const after = play(...way, signal('SignalAccepted', 'one'), signal('SignalRejected', 'two')).state;
    expect(after.run.status).toBe(before.run.status);
    expect(after.inconsistent).toBe(false);
    expect([after.signals.get('one'), after.signals.get('two')]).toEqual(['accepted', 'rejected']);
  }
  expect(CATALOGUE.SignalAccepted.emitters).toEqual(['authorization']);
  expect(CATALOGUE.SignalRejected.emitters).toEqual(['authorization']);
});

test('ES-1.3c an attempt is (runId, stepId, logicalAttemptId); the second one is shown as Retry #1', () => {
  const { state, violations } = play(
    runStarted('r'),
    ev('StepStarted', 'a'),
    ev('StepFailed', 'a', { error }),
    { ...ev('StepStarted', 'a'), attempt: 2 },
    // The first attempt again: known, so a duplicate. Its completion was never recorded, so it is invalid.
    ev('StepStarted', 'a'),
    ev('StepCompleted', 'a'),
  );
  expect(toSnapshot(state).steps).toMatchObject([{ stepId: 'a', status: 'RUNNING', logicalAttemptId: 2 }]);
  expect(violations).toMatchObject([{ runSeq: 6, prior: 'SUPERSEDED' }]);
  expect([attemptLabel(1), attemptLabel(2), attemptLabel(3)]).toEqual(['', 'Retry #1', 'Retry #2']);
});

test('ES-1.3d engineAttemptId is visible and changes nothing else', () => {
  const log = (engineAttempt: number) =>
    [ev('StepScheduled', 'a'), ev('StepStarted', 'a'), ev('StepCompleted', 'a')].map((e) => ({ ...e, engineAttempt }));
  const first = snap(runStarted('r'), ...log(1));
  const fifth = snap(runStarted('r'), ...log(5));
  expect(fifth.steps[0]?.engineAttemptId).toBe(5);
  expect({ ...fifth, steps: fifth.steps.map((step) => ({ ...step, engineAttemptId: 1 })) }).toEqual(first);
});

test('ES-Va unknown optional fields and odd payloads never fail a reader', () => {
  const odd: unknown[] = [null, 7, 'x', [], [null], { value: 1 }, { ref: 3 }, { kind: 'arc', arrivals: [{}] }];
  const names = [
    'error',
    'result',
    'artifacts',
    'cause',
    'args',
    'selected',
    'set',
    'index',
    'count',
    'list',
    'rootCause',
  ];
  const plain = snap(runStarted('r'), ev('StepStarted', 'a'), ev('StepCompleted', 'a'));
  for (const value of odd) {
    const payload = Object.fromEntries([...names.map((name) => [name, value]), ['futureField', value]]);
    for (const type of EVENT_TYPES) {
      expect(() =>
        snap(runStarted('r'), ev('StepStarted', 'a'), { ...ev(type, 'a', payload), entity: 'a/1' }),
      ).not.toThrow();
    }
    const more = snap(
      runStarted('r'),
      ev('StepStarted', 'a', { future: value }),
      ev('StepCompleted', 'a', { future: value }),
    );
    expect(more).toEqual(plain);
  }
});

test('WE-T1 every type is PascalCase without an "on" prefix, and the envelope time is emittedAt', () => {
  for (const type of EVENT_TYPES) {
    expect(type).toMatch(/^[A-Z][A-Za-z]+$/);
    expect(type).not.toMatch(/^On[A-Z]/);
  }
  const [record] = recordLog('r', [ev('StepStarted', 'a')]);
  expect(record).not.toHaveProperty('occurredAt');
  const foreign = { ...record!, runSeq: 2, occurredAt: testTime(999) };
  expect(toSnapshot(evolve(view(), foreign)).steps[0]?.startedAt).toBe(record!.emittedAt);
});

test('an erased payload leaves the view with what is known and says that decisions have ended', () => {
  const log = recordLog('r', [
    runStarted('r'),
    ev('StepStarted', 'a'),
    ev('StepFailed', 'a', { error }),
    ev('RunFailed'),
  ]);
  const erased = log.map((record) => {
    const { payload: _gone, ...rest } = record;
    return record.payload ? { ...rest, erased: true } : rest;
  });
  const { state, violations } = foldWithReport(view(), erased);
  expect(violations).toEqual([]);
  expect(state.erasedSeq).toBe(3);
  const snapshot = toSnapshot(state);
  expect(snapshot).toMatchObject({ status: 'FAILED', failedSteps: 1, startedAt: log[0]!.emittedAt });
  expect(snapshot.steps[0]?.error?.code).toBe('PAYLOAD_ERASED');
});
