import * as crypto from 'node:crypto';

/** SHA-256 as lowercase hex. The one-shot form is four times as fast as createHash on short input. */
export function sha256Hex(data: string | Uint8Array): string {
  return crypto.hash('sha256', data, 'hex');
}

export function sha256(data: string | Uint8Array): Buffer {
  return crypto.hash('sha256', data, 'buffer');
}

/**
 * HMAC-SHA-256 as lowercase hex, by two one-shot hashes (RFC 2104): creating an Hmac object costs more than the hashing.
 * The key has one byte per character and at most the 64 of a block.
 */
export function hmacSha256Hex(key: string, data: string): string {
  const length = 64 + Buffer.byteLength(data);
  const inner = length <= scratch.length ? scratch.subarray(0, length) : Buffer.allocUnsafe(length);
  inner.fill(0x36, key.length, 64);
  outer.fill(0x5c, key.length, 64);
  for (let i = 0; i < key.length; i++) {
    const byte = key.charCodeAt(i);
    inner[i] = byte ^ 0x36;
    outer[i] = byte ^ 0x5c;
  }
  inner.write(data, 64);
  outer.write(crypto.hash('sha256', inner, 'binary'), 64, 'latin1');
  return sha256Hex(outer);
}

const scratch = Buffer.alloc(8192);
const outer = Buffer.alloc(96);
