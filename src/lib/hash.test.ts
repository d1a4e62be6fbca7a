import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hmacSha256Hex, sha256, sha256Hex } from './hash.ts';

test('the hashes are SHA-256 over the UTF-8 bytes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const expected = createHash('sha256').update(text, 'utf8').digest('hex');
      expect(sha256Hex(text)).toBe(expected);
      expect(sha256(text).toString('hex')).toBe(expected);
      expect(sha256Hex(Buffer.from(text))).toBe(expected);
    }),
  );
});

test('the HMAC equals that of node:crypto for any key of up to a block and any text', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), fc.string({ unit: 'binary', maxLength: 300 }), (key, text) => {
      const bytes = Buffer.from(key).toString('latin1');
      expect(hmacSha256Hex(bytes, text)).toBe(createHmac('sha256', key).update(text, 'utf8').digest('hex'));
    }),
  );
});
