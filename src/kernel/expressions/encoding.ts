/** UTF-8 and Base64 without the host: workflow sandboxes have neither `TextEncoder` nor `btoa` for certain. */

export function utf8Bytes(text: string): Uint8Array {
  const out = new Uint8Array(text.length * 3);
  let length = 0;
  for (const char of text) {
    let code = char.codePointAt(0)!;
    // A lone surrogate is no character; every encoder writes the replacement character for it.
    if (code >= 0xd800 && code <= 0xdfff) code = 0xfffd;
    if (code < 0x80) {
      out[length++] = code;
    } else if (code < 0x800) {
      out[length++] = 0xc0 | (code >> 6);
      out[length++] = 0x80 | (code & 0x3f);
    } else if (code < 0x10000) {
      out[length++] = 0xe0 | (code >> 12);
      out[length++] = 0x80 | ((code >> 6) & 0x3f);
      out[length++] = 0x80 | (code & 0x3f);
    } else {
      out[length++] = 0xf0 | (code >> 18);
      out[length++] = 0x80 | ((code >> 12) & 0x3f);
      out[length++] = 0x80 | ((code >> 6) & 0x3f);
      out[length++] = 0x80 | (code & 0x3f);
    }
  }
  return out.subarray(0, length);
}

/** The text, or undefined if the bytes are not UTF-8. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  let text = '';
  for (let i = 0; i < bytes.length; ) {
    const lead = bytes[i]!;
    const size =
      lead < 0x80
        ? 1
        : lead >= 0xc2 && lead < 0xe0
          ? 2
          : lead >= 0xe0 && lead < 0xf0
            ? 3
            : lead >= 0xf0 && lead < 0xf5
              ? 4
              : 0;
    if (size === 0 || i + size > bytes.length) return undefined;
    let code = size === 1 ? lead : lead & (0xff >> (size + 1));
    for (let k = 1; k < size; k++) {
      const byte = bytes[i + k]!;
      if ((byte & 0xc0) !== 0x80) return undefined;
      code = (code << 6) | (byte & 0x3f);
    }
    const isOverlong = (size === 3 && code < 0x800) || (size === 4 && code < 0x10000);
    if (isOverlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return undefined;
    text += String.fromCodePoint(code);
    i += size;
  }
  return text;
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const VALUES: ReadonlyMap<string, number> = new Map([...ALPHABET].map((char, i) => [char, i]));

export function base64Text(bytes: Uint8Array): string {
  let out = '';
  for (let i = 0; i < bytes.length; i += 3) {
    const a = bytes[i]!;
    const b = bytes[i + 1];
    const c = bytes[i + 2];
    const group = (a << 16) | ((b ?? 0) << 8) | (c ?? 0);
    out += ALPHABET[group >> 18]! + ALPHABET[(group >> 12) & 63]!;
    out += b === undefined ? '=' : ALPHABET[(group >> 6) & 63]!;
    out += c === undefined ? '=' : ALPHABET[group & 63]!;
  }
  return out;
}

/** The bytes, or undefined if the text is not Base64. Takes the URL alphabet, white space and missing padding. */
export function base64Bytes(text: string): Uint8Array | undefined {
  const clean = text
    .replace(/\s+/g, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/')
    .replace(/={1,2}$/, '');
  if (clean.length % 4 === 1) return undefined;
  const out = new Uint8Array(Math.floor((clean.length * 3) / 4));
  let length = 0;
  let bits = 0;
  let buffer = 0;
  for (const char of clean) {
    const value = VALUES.get(char);
    if (value === undefined) return undefined;
    buffer = ((buffer << 6) | value) & 0xfff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out[length++] = (buffer >> bits) & 0xff;
    }
  }
  return out.subarray(0, length);
}

const UNRESERVED = /^[A-Za-z0-9_.~-]$/;

/** Python's `urllib.parse.quote`. */
export function percentEncode(text: string, safe: string): string {
  let out = '';
  for (const byte of utf8Bytes(text)) {
    const char = byte < 0x80 ? String.fromCharCode(byte) : '';
    const stays = char !== '' && (UNRESERVED.test(char) || safe.includes(char));
    out += stays ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return out;
}
