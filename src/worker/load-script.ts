import { readFile, realpath } from 'node:fs/promises';
import { isAbsolute, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AppError } from '../contracts/errors.ts';
import { isObject, type JsonObject } from '../kernel/payload-reader.ts';
import { sha256Hex } from '../lib/hash.ts';
import type { AddressPolicy } from '../lib/net-guard.ts';
import { download } from '../tools/http/download.ts';

/** From where scripts may be loaded. */
export interface ScriptSources {
  /** Folders in which files are looked for, and outside of which none is read. */
  readonly folders: readonly string[];
  readonly addresses?: Partial<AddressPolicy> | undefined;
}

/** What the log holds of a script. */
export interface LoadedScript {
  readonly uri: string;
  readonly sha256: string;
  readonly sizeBytes: number;
}

const MAX_BYTES = 1024 * 1024;
/** The field that the text of a script stands for. */
const FIELD: Readonly<Record<string, string>> = {
  python: 'code',
  javascript: 'code',
  postgres: 'command',
  duckdb: 'command',
  snowflake: 'command',
  shell: 'cmds',
};

/** Replaces `script` in a tool's fields by its text. A tool that the user defined gets the text under `code`. */
export async function withScript(
  kind: string,
  fields: Record<string, unknown>,
  sources: ScriptSources,
  signal: AbortSignal,
): Promise<{ readonly fields: Record<string, unknown>; readonly script?: LoadedScript }> {
  const { script, ...rest } = fields;
  if (script === undefined) return { fields };
  const field = Object.hasOwn(FIELD, kind) ? FIELD[kind]! : 'code';
  if (rest[field] !== undefined) throw invalid(`it has \`script\` and \`${field}\`; keep one of them`);
  if (!isObject(script)) throw invalid('`script` must be {uri, source: {type: ...}}');
  const { uri, bytes } = await load(script, sources, signal);
  const sha256 = sha256Hex(bytes);
  const expected = script['sha256'];
  if (expected !== undefined && expected !== sha256) {
    throw new AppError('ARTIFACT_CORRUPT', `The script ${uri} has the sha256 ${sha256}, not ${String(expected)}.`);
  }
  const text = decode(bytes, uri);
  const loaded = { uri, sha256, sizeBytes: bytes.byteLength };
  return { fields: { ...rest, [field]: field === 'cmds' ? [text] : text }, script: loaded };
}

async function load(
  script: JsonObject,
  sources: ScriptSources,
  signal: AbortSignal,
): Promise<{ uri: string; bytes: Uint8Array }> {
  const source = isObject(script['source']) ? script['source'] : {};
  const uri = String(script['uri'] ?? source['uri'] ?? source['path'] ?? source['url'] ?? '');
  const type = String(source['type'] ?? typeOf(uri));
  switch (type) {
    case 'inline': {
      const text = source['content'] ?? source['code'] ?? source['text'];
      if (typeof text !== 'string') throw invalid('an inline script needs `source.content`');
      return { uri: uri || 'inline', bytes: limited(Buffer.from(text), 'inline') };
    }
    case 'file':
      return { uri, bytes: limited(await fromFile(uri, sources.folders), uri) };
    case 'http':
    case 'https':
      return { uri: withoutQuery(uri), bytes: await fromHttp(uri, source, sources, signal) };
    case 's3':
    case 'gcs':
    case 'gs':
      throw new AppError('TOOL_UNAVAILABLE', `Scripts cannot be loaded from ${type} here; use inline, file or http.`);
    default:
      throw invalid(`\`script.source.type\` is '${type}'; known are inline, file, http, s3, gcs`);
  }
}

function typeOf(uri: string): string {
  if (/^https?:/i.test(uri)) return 'http';
  if (/^s3:/i.test(uri)) return 's3';
  return /^gs:/i.test(uri) ? 'gcs' : 'file';
}

async function fromFile(uri: string, folders: readonly string[]): Promise<Uint8Array> {
  if (uri === '') throw invalid('a script of the type file needs `uri`');
  if (folders.length === 0)
    throw new AppError('TOOL_UNAVAILABLE', 'No folder is configured from which scripts are read.');
  const path = /^file:/i.test(uri) ? fromUrl(uri) : uri;
  for (const folder of folders) {
    const real = await realpath(isAbsolute(path) ? path : resolve(folder, path)).catch(() => undefined);
    const root = await realpath(folder).catch(() => folder);
    // Links are followed first: one that leads out of the folder is outside.
    if (real?.startsWith(root.endsWith(sep) ? root : root + sep)) return readFile(real);
  }
  throw new AppError('FILE_NOT_READABLE', `The script ${uri} is in none of the folders from which scripts are read.`);
}

function fromUrl(uri: string): string {
  try {
    return fileURLToPath(uri);
  } catch {
    throw invalid(`'${uri}' is no file`);
  }
}

async function fromHttp(
  uri: string,
  source: JsonObject,
  { addresses }: ScriptSources,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const given = isObject(source['headers']) ? source['headers'] : {};
  const headers = Object.fromEntries(Object.entries(given).map(([name, value]) => [name.toLowerCase(), String(value)]));
  const policy: AddressPolicy = { refuse: ['link-local', 'metadata', 'reserved'], ...addresses };
  // With headers of its own, which may be credentials, it goes to that place and to no other.
  const request = Object.keys(headers).length === 0 ? {} : { request: { method: 'GET', headers } };
  try {
    const { status, bytes } = await download(uri, { policy, maxBytes: MAX_BYTES, signal, ...request });
    if (status === 200) return bytes;
    const code = status >= 500 || status === 429 ? 'SCRIPT_UNREACHABLE' : 'FILE_NOT_READABLE';
    throw new AppError(code, `The script ${withoutQuery(uri)} was answered ${status}.`, { status });
  } catch (error) {
    if (error instanceof AppError || signal.aborted) throw error;
    const reason = (error as Error).message;
    throw new AppError('SCRIPT_UNREACHABLE', `The script ${withoutQuery(uri)} cannot be fetched: ${reason}`);
  }
}

/** Signed addresses carry their permission in the query. */
const withoutQuery = (uri: string): string => uri.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//');

function limited(bytes: Uint8Array, uri: string): Uint8Array {
  if (bytes.byteLength <= MAX_BYTES) return bytes;
  throw new AppError('RESPONSE_TOO_LARGE', `The script ${uri} has more than ${MAX_BYTES} bytes.`, { limit: MAX_BYTES });
}

function decode(bytes: Uint8Array, uri: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw invalid(`the script ${uri} is not UTF-8 text`);
  }
}

const invalid = (message: string): AppError =>
  new AppError('INVALID_STEP_SCHEMA', `A field of the task is wrong: ${message}.`);
