import fc from 'fast-check';
import { expect, test } from 'vitest';
import { backoffMillis } from './backoff.ts';

test('RQ-6.2b the default backoff is about 5 s, 30 s, 2 min, 10 min, and stays there', () => {
  const about = [5, 30, 120, 600, 600, 600];
  about.forEach((seconds, i) => {
    for (const random of [0, 0.5, 0.999]) {
      const wait = backoffMillis({}, i + 1, random) / 1000;
      expect(wait).toBeGreaterThanOrEqual(seconds * 0.9);
      expect(wait).toBeLessThanOrEqual(seconds * 1.1);
    }
  });
  expect(backoffMillis({ maxDelay: 60 }, 4, 0.5)).toBe(60_000);
});

test('a delay that the author fixed is kept to the letter; growing ones double or add up, with jitter, to the cap', () => {
  expect(backoffMillis({ backoff: 'none', delay: 9 }, 3, 0.1)).toBe(0);
  expect(backoffMillis({ backoff: 'fixed', delay: 2 }, 7, 0.1)).toBe(2000);
  expect(backoffMillis({ delay: 2 }, 7, 0.9)).toBe(2000);
  expect(backoffMillis({ backoff: 'fixed', delay: 7200 }, 1, 0.1)).toBe(7_200_000);
  expect([1, 2, 3].map((n) => backoffMillis({ backoff: 'linear', delay: 2 }, n, 0.5))).toEqual([2000, 4000, 6000]);
  expect([1, 2, 3].map((n) => backoffMillis({ backoff: 'exponential', delay: 2 }, n, 0.5))).toEqual([2000, 4000, 8000]);
  expect(backoffMillis({ backoff: 'exponential', delay: 2 }, 1000, 0.5)).toBe(600_000);
  expect(backoffMillis({ backoff: 'exponential', delay: 2 }, 2, 0)).not.toBe(
    backoffMillis({ backoff: 'exponential', delay: 2 }, 2, 0.99),
  );
});

test('whatever is asked, the answer is a time that can be waited', () => {
  const policy = fc.record(
    {
      backoff: fc.constantFrom('none', 'fixed', 'linear', 'exponential', undefined),
      delay: fc.double(),
      maxDelay: fc.double(),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(
      policy,
      fc.integer({ min: -3, max: 1e9 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (p, n, r) => {
        const wait = backoffMillis(p as never, n, r);
        expect(Number.isFinite(wait) && wait >= 0).toBe(true);
      },
    ),
  );
});
