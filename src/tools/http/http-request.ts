import Type, { type Static } from 'typebox';
import { inputProblem } from '../outcomes.ts';

const Text = Type.String({ maxLength: 1_000_000 });
const Flag = Type.Boolean();
const Any = Type.Unknown();
const Mapping = Type.Record(Type.String(), Any);

export const HttpInput = Type.Object(
  {
    method: Type.Optional(Text),
    url: Text,
    params: Type.Optional(Type.Union([Mapping, Type.Null()])),
    headers: Type.Optional(Type.Union([Mapping, Type.Null()])),
    json: Type.Optional(Any),
    data: Type.Optional(Any),
    payload: Type.Optional(Any),
    body: Type.Optional(Any),
    form: Type.Optional(Type.Union([Mapping, Type.Null()])),
    auth: Type.Optional(Any),
    follow_redirects: Type.Optional(Flag),
    verify_ssl: Type.Optional(Flag),
  },
  { additionalProperties: false },
);
export type HttpInput = Static<typeof HttpInput>;

const METHODS: readonly string[] = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'];
const BODY_FIELDS = ['json', 'data', 'payload', 'body', 'form'] as const;
/** Headers that decide where a message ends or where it goes. A value from a template must not be able to move either. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'host',
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** A request before its secret is known. */
export interface HttpRequest {
  readonly method: string;
  readonly url: URL;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

export function methodOf(input: HttpInput): string {
  return (input.method ?? 'GET').trim().toUpperCase();
}

export function isRead(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
}

/** Where the call goes, without query and credentials, which may be secret. */
export function targetOf(input: HttpInput): string {
  const url = URL.canParse(input.url) ? new URL(input.url) : undefined;
  return url ? `${url.origin}${url.pathname}` : 'a URL that cannot be read';
}

export function buildRequest(input: HttpInput): HttpRequest {
  const method = methodOf(input);
  if (!METHODS.includes(method)) throw inputProblem(`\`method\` of http must be one of ${METHODS.join(', ')}`);
  const url = urlOf(input);
  for (const [name, value] of Object.entries(input.params ?? {})) appendPairs(url.searchParams, name, value);
  const headers: Record<string, string> = { accept: '*/*', 'accept-encoding': 'gzip, br', 'user-agent': 'runledger' };
  for (const [name, value] of Object.entries(input.headers ?? {})) setHeader(headers, name, value);
  if (url.username !== '' || url.password !== '') {
    const pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    headers['authorization'] ??= `Basic ${Buffer.from(pair).toString('base64')}`;
    url.username = '';
    url.password = '';
  }
  const body = encodeBody(input, headers);
  return { method, url, headers, ...(body ? { body } : {}) };
}

/** Checks a header as strictly as the grammar: a line break in a value would start a header or a request of its own. */
export function setHeader(headers: Record<string, string>, name: string, value: unknown): void {
  const key = name.toLowerCase();
  if (!TOKEN.test(name)) throw inputProblem('a name in `headers` of http is not a header name');
  if (OWN_HEADERS.has(key)) throw inputProblem(`\`headers.${name}\` of http is set by the tool itself; remove it`);
  if (value === null || value === undefined) return;
  if (typeof value === 'object') throw inputProblem(`\`headers.${name}\` of http must be a text`);
  const text = String(value).trim();
  if (!FIELD_VALUE.test(text)) {
    throw inputProblem(`\`headers.${name}\` of http holds a line break or a character that headers cannot carry`);
  }
  headers[key] = text;
}

function urlOf(input: HttpInput): URL {
  try {
    return new URL(input.url);
  } catch {
    throw inputProblem('`url` of http cannot be read; it needs a scheme and a host');
  }
}

function encodeBody(input: HttpInput, headers: Record<string, string>): Buffer | undefined {
  const given = BODY_FIELDS.filter((name) => input[name] !== undefined && input[name] !== null);
  if (given.length > 1) throw inputProblem(`http has more than one body: \`${given.join('`, `')}\`; keep one`);
  const name = given[0];
  if (name === undefined) return undefined;
  const value = input[name];
  const type = headers['content-type'];
  if (name === 'form' || (isMapping(value) && name === 'data' && isFormType(type))) {
    return formBody(value as Record<string, unknown>, headers);
  }
  // `json: "text"` is a JSON string; in the other fields a text is sent as it stands.
  if (typeof value === 'string' && name !== 'json') {
    headers['content-type'] ??= name === 'payload' ? 'application/json' : 'text/plain; charset=utf-8';
    return Buffer.from(value);
  }
  headers['content-type'] ??= 'application/json';
  return Buffer.from(JSON.stringify(value));
}

function formBody(value: Record<string, unknown>, headers: Record<string, string>): Buffer {
  const pairs = new URLSearchParams();
  for (const [name, item] of Object.entries(value)) appendPairs(pairs, name, item);
  headers['content-type'] ??= 'application/x-www-form-urlencoded';
  return Buffer.from(pairs.toString());
}

/** A list repeats its name, null is left out, a mapping is sent as JSON. */
function appendPairs(pairs: URLSearchParams, name: string, value: unknown): void {
  if (value === null || value === undefined) return;
  if (Array.isArray(value)) for (const item of value) appendPairs(pairs, name, item);
  else pairs.append(name, typeof value === 'object' ? JSON.stringify(value) : String(value));
}

function isMapping(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isFormType(type: string | undefined): boolean {
  return type?.toLowerCase().startsWith('application/x-www-form-urlencoded') ?? false;
}
