import type { ConnectionOptions } from 'node:tls';
import type pg from 'pg';
import { AppError } from '../../contracts/errors.ts';
import { canonicalJson } from '../../lib/canonical-json.ts';
import { sha256Hex } from '../../lib/hash.ts';
import { inputProblem } from '../outcomes.ts';

export interface PgCredential {
  /** Tells credentials apart without holding them. */
  readonly id: string;
  readonly config: pg.ClientConfig;
}

type Fields = Readonly<Record<string, unknown>>;

/** The name of the secret, or the credential itself where a keychain entry was rendered into the field. */
export type PgAuth = { readonly name: string } | { readonly inline: Fields };

export function readPgAuth(kind: string, value: unknown): PgAuth {
  if (typeof value === 'string' && value !== '') {
    return /^postgres(?:ql)?:\/\//.test(value) ? { inline: { url: value } } : { name: value };
  }
  if (isMapping(value)) {
    if (value['host'] !== undefined || urlOf(value) !== undefined) return { inline: value };
    const name = value['credential'] ?? value['name'];
    if (typeof name === 'string' && name !== '') return { name };
  }
  throw inputProblem(`${kind} needs \`auth\`: the name of an entry of the secrets provider`);
}

/** For messages and receipts: where it leads, never how to get in. */
export function describePgAuth(value: unknown): string {
  let auth: PgAuth;
  try {
    auth = readPgAuth('postgres', value);
  } catch {
    return 'a credential that cannot be read';
  }
  if ('name' in auth) return auth.name;
  const url = urlOf(auth.inline);
  if (url !== undefined) {
    try {
      const { host, pathname } = new URL(url);
      return `${host}${pathname}`;
    } catch {
      return 'inline';
    }
  }
  return `${String(auth.inline['host'])}/${String(auth.inline['database'] ?? auth.inline['dbname'] ?? '')}`;
}

export async function loadPgCredential(
  auth: PgAuth,
  secret: (name: string) => Promise<unknown>,
): Promise<PgCredential> {
  const value = 'name' in auth ? await secret(auth.name) : auth.inline;
  const label = 'name' in auth ? `the secret '${auth.name}'` : 'the credential';
  const config =
    typeof value === 'string' ? fromUrl(value, label) : isMapping(value) ? fromFields(value, label) : undefined;
  if (!config) throw invalid(`${label} must be a URL, or have host, port, user, password, database`);
  return { id: sha256Hex(canonicalJson(value)), config };
}

function fromFields(fields: Fields, label: string): pg.ClientConfig {
  const url = urlOf(fields);
  if (url !== undefined) return fromUrl(url, label);
  const host = text(fields['host']);
  const user = text(fields['user']) ?? text(fields['username']);
  const database = text(fields['database']) ?? text(fields['dbname']) ?? text(fields['db_name']);
  const port = fields['port'] === undefined ? 5432 : Number(fields['port']);
  if (!host || !user || !database) throw invalid(`${label} needs host, user and database`);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw invalid(`${label} has a port that is none`);
  const ssl = sslOf(text(fields['sslmode']) ?? 'disable', label);
  return { host, port, user, database, ssl, password: passwordOf(text(fields['password'])) };
}

/** Takes the URL apart here: the driver would fill what it leaves out from the environment of the worker. */
function fromUrl(value: string, label: string): pg.ClientConfig {
  let url: URL;
  try {
    url = new URL(value);
  } catch {
    throw invalid(`${label} is not a URL`);
  }
  if (url.protocol !== 'postgres:' && url.protocol !== 'postgresql:')
    throw invalid(`${label} is not a postgres:// URL`);
  const parameters = url.searchParams;
  const database = decodeURIComponent(url.pathname.slice(1));
  const user = decodeURIComponent(url.username) || parameters.get('user');
  const host = parameters.get('host') ?? decodeURIComponent(url.hostname).replace(/^\[|\]$/g, '');
  if (!host || !user || !database) throw invalid(`${label} needs a host, a user and a database`);
  const port = Number(url.port || parameters.get('port') || 5432);
  const password = decodeURIComponent(url.password) || parameters.get('password') || undefined;
  const ssl = sslOf(parameters.get('sslmode') ?? 'disable', label);
  return { host, port, user, database, ssl, password: passwordOf(password) };
}

/** As libpq defines the modes: `require` encrypts and does not verify. */
function sslOf(mode: string, label: string): boolean | ConnectionOptions {
  if (mode === 'disable' || mode === 'allow' || mode === 'prefer') return false;
  if (mode === 'require' || mode === 'no-verify') return { rejectUnauthorized: false };
  if (mode === 'verify-ca') return { checkServerIdentity: () => undefined };
  if (mode === 'verify-full') return true;
  throw invalid(`${label} has an sslmode that is not known`);
}

/** A function, because an empty password would be filled from the environment. */
function passwordOf(password: string | undefined): () => string {
  return () => password ?? '';
}

function urlOf(fields: Fields): string | undefined {
  return text(fields['url']) ?? text(fields['uri']) ?? text(fields['dsn']) ?? text(fields['connection_string']);
}

function invalid(message: string): AppError {
  return new AppError('SECRET_INVALID', message);
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function isMapping(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
