import { expect, test } from 'vitest';
import { blankState } from './snapshot-projector.ts';
import { StateCache } from './state-cache.ts';

const state = (name: string) => blankState(name);

test('the states that were not used for longest go first when there is no more room', () => {
  const cache = new StateCache(100);
  cache.set(1, state('a'), 40);
  cache.set(2, state('b'), 40);
  cache.get(1);
  cache.set(3, state('c'), 40);
  expect([1, 2, 3].map((key) => cache.get(key)?.runId)).toEqual(['a', undefined, 'c']);
  cache.set(3, state('d'), 50);
  expect([1, 3].map((key) => cache.get(key)?.runId)).toEqual(['a', 'd']);
  // A state that is larger than all the room is not kept, and leaves the others in peace.
  cache.set(4, state('e'), 101);
  expect([1, 3, 4].map((key) => cache.get(key)?.runId)).toEqual(['a', 'd', undefined]);
});

test('everything is forgotten when connections were lost', () => {
  const cache = new StateCache(100);
  cache.set(1, state('a'), 60);
  cache.keepFor(0);
  expect(cache.get(1)?.runId).toBe('a');
  cache.keepFor(1);
  expect(cache.get(1)).toBeUndefined();
  cache.set(2, state('b'), 60);
  cache.keepFor(1);
  expect(cache.get(2)?.runId).toBe('b');
});
