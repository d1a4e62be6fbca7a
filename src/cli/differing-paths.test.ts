import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalJson } from '../lib/canonical-json.ts';
import { differingPaths } from './differing-paths.ts';

test('differences are named as deep as they can be', () => {
  const a = { same: 1, list: [1, { x: 'old' }], gone: true };
  const b = { same: 1, list: [1, { x: 'new' }, 3], 'odd key': null };
  expect(differingPaths(a, b)).toEqual([
    { path: '.gone', a: true, b: undefined },
    { path: '.list[1].x', a: 'old', b: 'new' },
    { path: '.list[2]', a: undefined, b: 3 },
    { path: '["odd key"]', a: undefined, b: null },
  ]);
  expect(differingPaths([1], { 0: 1 })).toEqual([{ path: '', a: [1], b: { 0: 1 } }]);
});

test('two values differ somewhere if and only if their canonical texts do', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
      expect(differingPaths(a, b).length === 0).toBe(canonicalJson(a) === canonicalJson(b));
      expect(differingPaths(a, structuredClone(a))).toEqual([]);
    }),
  );
});
