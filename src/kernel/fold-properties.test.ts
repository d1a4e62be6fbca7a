import fc from 'fast-check';
import { expect, test } from 'vitest';
import { deepFreeze } from '../lib/deep-freeze.ts';
import { arbitraryLog } from '../testing/arbitrary-log.ts';
import { recordLog, runStarted, type ShortEvent } from '../testing/record-log.ts';
import { evolve, fold, foldWithReport } from './evolve.ts';
import { initialState, type RunState } from './state.ts';
import { fromJson, toJson } from './state-json.ts';
import { toSnapshot } from './to-snapshot.ts';

const view = () => initialState('r', { keepFinished: true, results: 'all', lineage: 'all' });
const engine = () => initialState('r', { keepFinished: false });
const text = (state: RunState) => JSON.stringify(toJson(state));

test('ES-1.5a any split of a log folds to the same state and snapshot as the whole', () => {
  fc.assert(
    fc.property(arbitraryLog, fc.array(fc.nat({ max: 60 })), (log, cuts) => {
      const whole = fold(view(), log);
      let state = view();
      let from = 0;
      for (const cut of [...cuts, log.length].sort((a, b) => a - b)) {
        state = fold(state, log.slice(from, cut));
        from = Math.max(from, Math.min(cut, log.length));
      }
      expect(text(state)).toBe(text(whole));
      expect(toSnapshot(state)).toEqual(toSnapshot(whole));
    }),
  );
});

test('evolve one by one and fold in one go are the same reducer', () => {
  fc.assert(
    fc.property(arbitraryLog, fc.boolean(), (log, keep) => {
      const start = keep ? view : engine;
      expect(text(log.reduce(evolve, start()))).toBe(text(fold(start(), log)));
    }),
  );
});

test('ES-1.4b a projection never changes the state or the snapshot that it was given', () => {
  fc.assert(
    fc.property(arbitraryLog, fc.nat({ max: 60 }), (log, at) => {
      const frozen = log.map((record) => deepFreeze(record));
      const before = fold(view(), frozen.slice(0, at));
      const asText = text(before);
      const snapshot = toSnapshot(before);
      const asSnapshot = structuredClone(snapshot);
      fold(before, frozen.slice(at));
      frozen.slice(at).reduce(evolve, before);
      expect(text(before)).toBe(asText);
      expect(toSnapshot(before)).toEqual(asSnapshot);
      expect(snapshot).toEqual(asSnapshot);
      expect(isFrozenThrough(snapshot)).toBe(true);
    }),
  );
});

function isFrozenThrough(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isFrozenThrough);
}

test('a state that went through JSON goes on exactly as one that did not', () => {
  fc.assert(
    fc.property(arbitraryLog, fc.nat({ max: 60 }), fc.boolean(), (log, at, keep) => {
      const start = keep ? view : engine;
      const half = fold(start(), log.slice(0, at));
      const revived = fromJson(JSON.parse(JSON.stringify(toJson(half))));
      expect(text(revived)).toBe(text(half));
      const { state, violations } = foldWithReport(revived, log.slice(at));
      const direct = foldWithReport(half, log.slice(at));
      expect(text(state)).toBe(text(direct.state));
      expect(violations).toEqual(direct.violations);
    }),
  );
});

test('a saved state of another version is refused with a code', () => {
  for (const json of [null, {}, { version: 99 }, { ...toJson(view()), open: 1 }, 'x']) {
    expect(() => fromJson(json)).toThrowError(expect.objectContaining({ code: 'SCHEMA_VALIDATION_FAILED' }));
  }
});

/** Six events a step, as a run of no-op steps writes them. */
function linear(steps: number): ShortEvent[] {
  const events = [runStarted('r')];
  for (let i = 0; i < steps; i++) {
    const step = `s${i}`;
    const cause = i === 0 ? { kind: 'entry' } : { kind: 'arc', arrivals: [{ from: `s${i - 1}`, arc: 0 }] };
    events.push(
      { type: 'StepScheduled', step, payload: { cause } },
      { type: 'StepStarted', step },
      { type: 'TaskStarted', step, entity: `${step}/t:1`, payload: { task: 't', tool: 'noop' } },
      { type: 'TaskDone', step, entity: `${step}/t:1`, payload: { attempts: 1 } },
      { type: 'StepCompleted', step, payload: { result: { value: 'x'.repeat(100) } } },
      { type: 'NextEvaluated', step, payload: { selected: i + 1 < steps ? [{ step: `s${i + 1}`, arc: 0 }] : [] } },
    );
  }
  return events;
}

test('an engine’s state does not grow with finished steps that no template reads, while a view keeps each of them', () => {
  const log = recordLog('r', linear(2000));
  const small = fold(initialState('r', { keepFinished: false, results: [], lineage: [] }), log);
  expect(small.open.size + small.done.size + small.tokens.size + small.unrouted.size).toBe(0);
  expect(text(small).length).toBeLessThan(2000 * 60);
  const full = fold(initialState('r', { keepFinished: true }), log);
  expect(toSnapshot(full).steps).toHaveLength(2000);
  expect(toSnapshot(full).steps.map((step) => step.stepId)).toEqual(Array.from({ length: 2000 }, (_, i) => `s${i}`));
});

test('an engine and a view agree on everything that is still open', () => {
  fc.assert(
    fc.property(fc.nat({ max: 120 }), (length) => {
      const log = recordLog('r', linear(20)).slice(0, length);
      const lean = fold(engine(), log);
      const full = fold(view(), log);
      expect(lean.open.entries()).toEqual(full.open.entries());
      expect(lean.tokens.entries()).toEqual(full.tokens.entries());
      expect(lean.unended).toBe(full.unended);
      expect(lean.run).toEqual(full.run);
    }),
  );
});
