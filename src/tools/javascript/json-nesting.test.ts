import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nestingOf } from './json-nesting.ts';

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

test('the nesting of a text is the depth of its value', () => {
  fc.assert(fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => nestingOf(JSON.stringify(value)) === depthOf(value)));
  expect(nestingOf('{"a[{":["\\"[[["]}')).toBe(2);
});
