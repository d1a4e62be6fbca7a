import { AppError } from '../../contracts/errors.ts';
import { inputProblem } from '../outcomes.ts';
import { setHeader } from './http-request.ts';

type Secret = Readonly<Record<string, unknown>>;

/**
 * `auth` names a secret; the longer form says how to send it: `{credential, type, header, prefix}`. A keychain entry that was
 * rendered into the field is the secret itself.
 */
export interface AuthField {
  readonly name: string;
  readonly how: Secret;
  readonly inline?: Secret;
}

const SECRET_FIELDS = ['token', 'access_token', 'password', 'api_key', 'apikey', 'key', 'value', 'headers'];

export function readAuth(auth: unknown): AuthField | undefined {
  if (auth === undefined || auth === null || auth === '') return undefined;
  if (typeof auth === 'string') return { name: auth, how: {} };
  if (isMapping(auth)) {
    const name = auth['credential'] ?? auth['name'] ?? auth['secret'];
    if (typeof name === 'string' && name !== '') return { name, how: auth };
    if (SECRET_FIELDS.some((field) => field in auth)) return { name: 'auth', how: {}, inline: auth };
  }
  throw inputProblem('`auth` of http must name an entry of the secrets provider');
}

/** The headers that a secret becomes. A text is a bearer token; a mapping says what it is by its fields. */
export function authHeaders(field: AuthField, secret: unknown): Record<string, string> {
  const headers: Record<string, string> = {};
  const add = (name: string, value: string): void => {
    try {
      setHeader(headers, name, value);
    } catch {
      throw invalid(field, 'cannot be sent as a header');
    }
  };
  const shape: Secret = typeof secret === 'string' ? { token: secret } : isMapping(secret) ? secret : {};
  const how = { ...shape, ...field.how };
  const type = text(how['type']) ?? text(how['scheme']);
  const key = text(shape['api_key']) ?? text(shape['apikey']) ?? text(shape['key']) ?? text(shape['value']);
  const token = text(shape['token']) ?? text(shape['access_token']);
  const user = text(shape['username']) ?? text(shape['user']);
  const password = text(shape['password']);
  const header = text(how['header']);
  if (isMapping(shape['headers'])) {
    for (const [name, value] of Object.entries(shape['headers'])) add(name, String(value));
  } else if (user !== undefined && password !== undefined && type !== 'bearer') {
    add('authorization', `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`);
  } else if (type === 'basic' && token?.includes(':')) {
    add('authorization', `Basic ${Buffer.from(token).toString('base64')}`);
  } else if (header !== undefined || key !== undefined || type === 'api_key' || type === 'header') {
    const value = key ?? token;
    if (value === undefined) throw invalid(field, 'has no `api_key`');
    add(header ?? 'x-api-key', `${text(how['prefix']) ?? ''}${value}`);
  } else if (token !== undefined) {
    // Some keep the whole header in the secret.
    add('authorization', /^(?:bearer|basic|token|digest) /i.test(token) ? token : `Bearer ${token}`);
  } else {
    throw invalid(field, 'must be a token, or have `token`, `username` and `password`, `api_key`, or `headers`');
  }
  return headers;
}

function invalid(field: AuthField, message: string): AppError {
  return new AppError('SECRET_INVALID', `the secret '${field.name}' ${message}`);
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function isMapping(value: unknown): value is Secret {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
