import fc from 'fast-check';
import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import { RunSnapshot } from '../contracts/snapshot.ts';
import { fold } from '../kernel/evolve.ts';
import { toJson } from '../kernel/state-json.ts';
import { deepFreeze } from '../lib/deep-freeze.ts';
import { arbitraryLog } from '../testing/arbitrary-log.ts';
import { recordLog, runStarted, type ShortEvent, testTime } from '../testing/record-log.ts';
import { blankState, SnapshotProjector } from './snapshot-projector.ts';

const projector = new SnapshotProjector();
const log = (...events: ShortEvent[]) => recordLog('r', events);
const error = { category: 'tool', code: 'BOOM', message: 'it broke', retryable: false };

test('ES-1.5a projectRun over a log and incrementalProject over any split of it give the same snapshot', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryLog, fc.array(fc.nat({ max: 60 })), async (events, cuts) => {
      const whole = await projector.projectRun('r', events);
      const places = [0, ...cuts, events.length].map((cut) => Math.min(cut, events.length)).sort((a, b) => a - b);
      let snapshot = await projector.projectRun('r', []);
      for (let i = 1; i < places.length; i++)
        snapshot = await projector.incrementalProject(snapshot, events.slice(places[i - 1], places[i]));
      expect(snapshot).toEqual(whole);
    }),
  );
});

test('ES-1.5a ES-1.5d a projection that was saved goes on from its state, and events it had before change nothing', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryLog, fc.nat({ max: 60 }), fc.nat({ max: 60 }), async (events, at, back) => {
      const state = fold(blankState('r'), events.slice(0, at));
      const snapshot = await projector.projectRun('r', events.slice(0, at));
      const saved = { lastEventSeq: state.lastEventSeq, state: JSON.stringify(toJson(state)), snapshot };
      const again = await projector.incrementalProject(saved, events.slice(Math.max(0, at - back)));
      expect(again).toEqual(await projector.projectRun('r', events));
    }),
  );
});

test('ES-1.4b a projection never changes the snapshot that it was given, which is frozen all the way down', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryLog, fc.nat({ max: 60 }), async (events, at) => {
      const before = await projector.projectRun('r', events.slice(0, at));
      const copy = structuredClone(before);
      const after = await projector.incrementalProject(before, deepFreeze(structuredClone(events)));
      expect(before).toEqual(copy);
      expect(after).not.toBe(before);
      for (const snapshot of [before, after]) expect(isFrozenThrough(snapshot)).toBe(true);
    }),
  );
});

function isFrozenThrough(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isFrozenThrough);
}

test('ES-1.4a the snapshot of any log fits the published schema', async () => {
  const schema = Compile(RunSnapshot);
  await fc.assert(
    fc.asyncProperty(arbitraryLog, async (events) => {
      const snapshot = await projector.projectRun('r', events);
      expect([...schema.Errors(snapshot)]).toEqual([]);
    }),
  );
});

test('ES-1.5f failed steps are counted, artifacts gathered on RunCompleted, the root cause kept on RunFailed', async () => {
  const one = { uri: 's3://b/1', kind: 'log' };
  const steps = [
    runStarted('r'),
    { type: 'StepStarted', step: 'a' },
    { type: 'StepCompleted', step: 'a', payload: { artifacts: [one] } },
    { type: 'StepStarted', step: 'b' },
    { type: 'StepFailed', step: 'b', payload: { error } },
  ];
  const failed = await projector.projectRun(
    'r',
    log(...steps, { type: 'RunFailed', payload: { rootCause: { stepId: 'b', error } } }),
  );
  expect(failed).toMatchObject({ status: 'FAILED', failedSteps: 1, rootCause: { stepId: 'b', error } });
  const completed = await projector.projectRun('r', log(...steps, { type: 'RunCompleted' }));
  expect(completed).toMatchObject({ status: 'COMPLETED', artifacts: [one] });
});

test('ES-1.5e an unknown type advances lastEventSeq and changes no state', async () => {
  const before = await projector.projectRun('r', log(runStarted('r')));
  const events = log(runStarted('r'), { type: 'StepTeleported', step: 'a', payload: { to: 'Mars' } });
  expect(await projector.incrementalProject(before, events)).toEqual({ ...before, lastEventSeq: 2 });
});

test('ES-A1 a second RunStarted with the same key changes no state and still advances lastEventSeq', async () => {
  const first = await projector.projectRun('r', log(runStarted('r')));
  expect(first).toMatchObject({
    status: 'RUNNING',
    engineRunRef: { provider: 'mock', workflowId: 'wf-r', runId: 'r' },
    startedAt: testTime(0),
    lastEventSeq: 1,
  });
  const second = await projector.incrementalProject(first, log(runStarted('r'), runStarted('r')));
  expect(second).toEqual({ ...first, lastEventSeq: 2 });
});

test('ES-1.0a ES-1.5g a gap is told as an observation, and folded like any other step of the sequence', async () => {
  expect(await projector.detectNonContiguous(10, 11)).toEqual({ observedNonContiguous: false });
  expect(await projector.detectNonContiguous(10, 12)).toEqual({ observedNonContiguous: true });
  expect(await projector.detectNonContiguous(10, 10)).toEqual({ observedNonContiguous: false });
  const events = log({ ...runStarted('r'), seq: 10 }, { type: 'StepStarted', step: 'a', seq: 12 });
  expect(await projector.projectRun('r', events)).toMatchObject({
    lastEventSeq: 12,
    metadata: { inconsistent: false, stale: false },
  });
});

test('ES-1.5b events that are not in rising order are refused, and nothing is reordered', async () => {
  const [a, b] = log(runStarted('r'), { type: 'RunPaused' });
  await expect(projector.projectRun('r', [b!, a!])).rejects.toMatchObject({ code: 'INTERNAL' });
});

test('a copy of a snapshot, or a state of another version, cannot be projected further and says so', async () => {
  const snapshot = await projector.projectRun('r', log(runStarted('r')));
  await expect(projector.incrementalProject(structuredClone(snapshot), [])).rejects.toMatchObject({ code: 'USAGE' });
  for (const state of ['{"version":0}', 'no json'])
    await expect(projector.incrementalProject({ lastEventSeq: 1, state, snapshot }, [])).rejects.toMatchObject({
      code: 'SCHEMA_VALIDATION_FAILED',
    });
});
