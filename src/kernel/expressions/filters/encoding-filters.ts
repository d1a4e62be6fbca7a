import { sha256, sha512 } from '@noble/hashes/sha2.js';
import { type CallableTable, textArgument } from '../callable.ts';
import { base64Bytes, base64Text, percentEncode, utf8Bytes, utf8Text } from '../encoding.ts';
import type { Evaluation } from '../evaluation.ts';
import { forbidden, typeError } from '../failure.ts';
import { toText } from '../render-text.ts';
import { isMapping, iterate } from '../values.ts';
import { itemsOf } from './mapping-filters.ts';

export const ENCODING_FILTERS: CallableTable = {
  b64encode: {
    params: [],
    summary: 'Text (as UTF-8) in Base64.',
    apply: (ev, value) => {
      const text = toText(ev, value);
      ev.charge(1 + (text.length >> 2));
      return ev.text(base64Text(utf8Bytes(text)));
    },
  },
  b64decode: {
    params: [],
    summary: 'The UTF-8 text that a Base64 text holds.',
    apply: (ev, value) => {
      const text = toText(ev, value);
      ev.charge(1 + (text.length >> 2));
      const bytes = base64Bytes(text);
      const decoded = bytes === undefined ? undefined : utf8Text(bytes);
      if (decoded !== undefined) return ev.text(decoded);
      throw typeError(
        bytes === undefined ? 'this text is not Base64' : 'this Base64 holds bytes that are not UTF-8 text',
      );
    },
  },
  urlencode: {
    params: [],
    summary: 'Text for a URL path, or a mapping (or list of pairs) as a query string.',
    apply: (ev, value) => {
      if (!isMapping(value) && !Array.isArray(value)) return quote(ev, toText(ev, value), '/');
      const pairs = isMapping(value) ? itemsOf(ev, value, 'urlencode') : value;
      const encoded = pairs.map((pair) => {
        const [key, content, ...rest] = iterate(ev, pair);
        if (rest.length > 0) throw typeError('urlencode needs a list of [key, value]');
        return `${queryPart(ev, key)}=${queryPart(ev, content)}`;
      });
      ev.charge(encoded.length);
      return ev.text(encoded.join('&'));
    },
  },
  hash: {
    params: ['algorithm'],
    summary: "Hex digest of a text's UTF-8: sha256 (default) or sha512.",
    apply: (ev, value, [algorithm]) => {
      const name = textArgument(ev, algorithm, 'sha256').toLowerCase();
      if (name === 'md5' || name === 'sha1') throw forbidden(`${name} can be forged; use hash('sha256')`);
      if (name !== 'sha256' && name !== 'sha512') throw typeError("hash knows 'sha256' and 'sha512'");
      const bytes = utf8Bytes(toText(ev, value));
      ev.charge(1 + bytes.length);
      const digest = name === 'sha256' ? sha256(bytes) : sha512(bytes);
      return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
    },
  },
};

function quote(ev: Evaluation, text: string, safe: string): string {
  ev.checkLength(text.length);
  ev.charge(1 + text.length);
  return ev.text(percentEncode(text, safe));
}

function queryPart(ev: Evaluation, value: unknown): string {
  return quote(ev, toText(ev, value), '').replaceAll('%20', '+');
}
