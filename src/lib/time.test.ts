import fc from 'fast-check';
import { expect, test } from 'vitest';
import { microsToText, textToMicros } from './time.ts';

test('microseconds survive the way to text and back', () => {
  const year3000 = Date.UTC(3000, 0) * 1000;
  fc.assert(
    fc.property(fc.integer({ min: -2_000_000_000_000_000, max: year3000 }), (micros) => {
      const text = microsToText(micros);
      expect(text).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
      expect(textToMicros(text)).toBe(micros);
    }),
  );
  expect(microsToText(1_770_805_800_000_001)).toBe('2026-02-11T10:30:00.000001Z');
});

test('what is below the microsecond is cut, and other forms are refused', () => {
  expect(textToMicros('1970-01-01T00:00:00.123456789Z')).toBe(123_456);
  expect(textToMicros('1970-01-01T00:00:01+00:00')).toBe(1_000_000);
  for (const text of ['', 'yesterday', '1970-01-01T00:00:00', '1970-01-01T01:00:00+01:00', '1970-13-01T00:00:00Z']) {
    expect(() => textToMicros(text)).toThrow(RangeError);
  }
});
