import fc from 'fast-check';
import { expect, test } from 'vitest';
import { VersionedMap } from './versioned-map.ts';

const sorted = (map: VersionedMap<string, number>) => map.entries().sort(([a], [b]) => (a < b ? -1 : 1));

test('every version stays the value that it was, in whatever order versions are changed, by whom, and read', () => {
  const key = fc.constantFrom('a', 'b', 'c', 'd');
  const action = fc.record({
    base: fc.nat(),
    key,
    value: fc.option(fc.nat(), { nil: undefined }),
    owner: fc.nat({ max: 3 }),
    peek: fc.nat(),
  });
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
      const versions = [VersionedMap.empty<string, number>()];
      const models = [new Map<string, number>()];
      const owners = [undefined, {}, {}, {}];
      for (const { base, key, value, owner: who, peek } of actions) {
        const at = base % versions.length;
        const model = new Map(models[at]);
        if (value === undefined) model.delete(key);
        else model.set(key, value);
        const version = versions[at]!;
        const owner = owners[who];
        const changed = value === undefined ? version.delete(key, owner) : version.set(key, value, owner);
        if (changed === version) models[at] = model;
        else {
          versions.push(changed);
          models.push(model);
        }
        const seen = peek % versions.length;
        expect(sorted(versions[seen]!)).toEqual([...models[seen]!].sort(([a], [b]) => (a < b ? -1 : 1)));
      }
      versions.forEach((version, i) => {
        expect(version.size).toBe(models[i]!.size);
        for (const k of ['a', 'b', 'c', 'd']) expect(version.get(k)).toBe(models[i]!.get(k));
      });
    }),
  );
});

test('an owner changes its own version in place and nobody else’s', () => {
  const owner = {};
  const before = VersionedMap.from([['a', 1]]);
  const mine = before.set('b', 2, owner);
  expect(mine.set('c', 3, owner)).toBe(mine);
  expect(mine.delete('a', owner)).toBe(mine);
  const other = mine.set('d', 4, {});
  expect(other).not.toBe(mine);
  expect(before.entries()).toEqual([['a', 1]]);
  expect(sorted(mine)).toEqual([
    ['b', 2],
    ['c', 3],
  ]);
});

test('a version that is a million changes old can be read', () => {
  const first = VersionedMap.from([['n', 0]]);
  let last = first;
  for (let i = 1; i <= 1_000_000; i++) last = last.set('n', i);
  expect(first.get('n')).toBe(0);
  expect(last.get('n')).toBe(1_000_000);
});
