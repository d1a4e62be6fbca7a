import type { IncomingMessage } from 'node:http';
import { type Duplex, pipeline, type Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { AppError } from '../../contracts/errors.ts';
import type { ArtifactStore } from '../tool.ts';

export interface BodyLimits {
  /** Decoded bytes that stay in the result; more goes to the artifact store as it arrives. */
  readonly inlineBytes: number;
  /** Decoded bytes at which the answer is given up. Counting them decoded bounds a compressed bomb too. */
  readonly maxBytes: number;
}

export interface ReadBody {
  readonly value: unknown;
  readonly artifact?: { uri: string; kind: string; sha256: string; sizeBytes: number; expiresAt?: string };
}

const KIND = 'http-body';
const DECODERS: Readonly<Record<string, () => Duplex>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};
const TEXT_TYPE =
  /^(?:text\/|application\/(?:[\w.+-]+\+)?(?:json|xml|yaml|javascript|x-www-form-urlencoded|x-ndjson|ndjson|jsonl|graphql|sql|toml|csv)\b|image\/svg\+xml)/i;
const JSON_TYPE = /^(?:application|text)\/(?:[\w.+-]+\+)?json\b/i;
const MAX_JSON_DEPTH = 180;

export async function readBody(
  response: IncomingMessage,
  method: string,
  limits: BodyLimits,
  artifacts: ArtifactStore,
): Promise<ReadBody> {
  const type = response.headers['content-type'] ?? '';
  const status = response.statusCode ?? 0;
  if (method === 'HEAD' || status === 204 || status === 304) {
    response.resume();
    return { value: null };
  }
  const decoded = decode(response);
  const bounded = bound(decoded, limits.maxBytes);
  const head: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const next = await bounded.next();
    if (next.done) break;
    head.push(next.value);
    size += next.value.length;
    if (size > limits.inlineBytes) return { value: null, artifact: await put(artifacts, joined(head, bounded)) };
  }
  const bytes = Buffer.concat(head);
  const text = decodeText(bytes, type);
  if (text === undefined) return { value: null, artifact: await put(artifacts, bytes) };
  return { value: JSON_TYPE.test(type) ? parseJson(text) : text };
}

function decode(response: IncomingMessage): Readable {
  const encodings = (response.headers['content-encoding'] ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  const decoders = encodings.map((name) => DECODERS[name]);
  // Each layer multiplies the work; nobody encodes twice for a good reason.
  if (decoders.length > 2 || decoders.includes(undefined)) {
    throw Object.assign(
      new Error(`the answer has the content encoding '${encodings.join(', ').slice(0, 60)}', which is not known`),
      {
        code: 'BAD_ENCODING',
      },
    );
  }
  if (decoders.length === 0) return response;
  // An error of any stage destroys the last one, where the reader sees it.
  return pipeline([response, ...decoders.reverse().map((make) => make!())], () => {}) as Duplex;
}

async function* bound(stream: Readable, maxBytes: number): AsyncGenerator<Uint8Array, void, undefined> {
  let size = 0;
  for await (const chunk of stream as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > maxBytes) {
      throw new AppError('RESPONSE_TOO_LARGE', `the answer is larger than ${maxBytes} bytes`);
    }
    yield chunk;
  }
}

async function* joined(head: readonly Uint8Array[], rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* head;
  yield* rest;
}

async function put(
  artifacts: ArtifactStore,
  bytes: Uint8Array | AsyncIterable<Uint8Array>,
): Promise<NonNullable<ReadBody['artifact']>> {
  const { uri, sha256, sizeBytes, expiresAt } = await artifacts.put(bytes, KIND);
  return { uri, kind: KIND, sha256, sizeBytes, ...(expiresAt === undefined ? {} : { expiresAt }) };
}

/** The text of a body, or undefined if it is binary. Bytes that no charset explains must not become question marks. */
function decodeText(bytes: Buffer, type: string): string | undefined {
  const isText = TEXT_TYPE.test(type);
  if (type !== '' && !isText && bytes.length > 0) return undefined;
  const charset = /charset\s*=\s*"?([\w.:-]+)/i.exec(type)?.[1] ?? 'utf-8';
  try {
    const text = new TextDecoder(charset, { fatal: true }).decode(bytes);
    return type === '' && text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}

/** JSON that cannot be read, or is nested deeper than the log can hold, stays text. */
function parseJson(text: string): unknown {
  try {
    return nesting(text) > MAX_JSON_DEPTH ? text : JSON.parse(text);
  } catch {
    return text;
  }
}

function nesting(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === 92) i += 1;
      else if (code === 34) inString = false;
    } else if (code === 34) inString = true;
    else if (code === 91 || code === 123) deepest = Math.max(deepest, ++depth);
    else if (code === 93 || code === 125) depth -= 1;
  }
  return deepest;
}
