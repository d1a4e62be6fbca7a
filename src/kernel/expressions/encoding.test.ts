import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { base64Bytes, base64Text, percentEncode, utf8Bytes, utf8Text } from './encoding.ts';
import { placeOf, placesOf, splitOn } from './text-search.ts';

describe('encodings agree with the host', () => {
  test('UTF-8 and Base64 of any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const bytes = utf8Bytes(text);
        expect(Buffer.from(bytes).equals(Buffer.from(text, 'utf8'))).toBe(true);
        expect(utf8Text(bytes)).toBe(Buffer.from(text, 'utf8').toString('utf8'));
        expect(base64Text(bytes)).toBe(Buffer.from(bytes).toString('base64'));
      }),
    );
  });

  test('bytes that are not UTF-8 are refused, the others read', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 12 }), (bytes) => {
        let wanted: string | undefined;
        try {
          wanted = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
        } catch {
          wanted = undefined;
        }
        expect(utf8Text(bytes)).toBe(wanted);
        expect(base64Bytes(base64Text(bytes))).toEqual(bytes);
        expect(base64Bytes(Buffer.from(bytes).toString('base64url'))).toEqual(bytes);
      }),
    );
  });

  test('percent encoding is undone by the host', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(decodeURIComponent(percentEncode(text, ''))).toBe(text);
        expect(percentEncode(text, '')).toMatch(/^(?:[A-Za-z0-9_.~-]|%[0-9A-F]{2})*$/);
      }),
    );
  });
});

describe('searching in texts', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 400 });
  const part = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 90 });

  test('long and short parts are found where the host finds them', () => {
    const found = fc.tuple(text, part, fc.nat(300)).map(([hay, needle, at]) => {
      const place = Math.min(at, hay.length);
      return [hay.slice(0, place) + needle + hay.slice(place), needle] as const;
    });
    fc.assert(
      fc.property(fc.oneof(found, fc.tuple(text, part)), ([hay, needle]) => {
        expect(placeOf(hay, needle)).toBe(hay.indexOf(needle));
        expect(splitOn(hay, needle)).toEqual(hay.split(needle));
        expect([...placesOf(hay, needle)].length).toBe(hay.split(needle).length - 1);
      }),
    );
  });
});
