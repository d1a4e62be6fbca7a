import { open } from 'node:fs/promises';
import { AppError } from '../../contracts/errors.ts';
import type { SecretScope, SecretsProvider } from '../../lib/secrets.ts';

type Secrets = Readonly<Record<string, unknown>>;

interface LoadedFile {
  readonly stamp: string;
  readonly shared: Secrets;
  readonly scopes: Readonly<Record<string, Secrets>>;
}

/** Under this key a JSON file holds what belongs to one tenant (`acme`), or to one of its environments (`acme/prod`). */
const SCOPES = '$scopes';
const MAX_BYTES = 1024 * 1024;

/**
 * Secrets from a file that only its owner may open: JSON (`{"pg_main": {"host": ...}, "$scopes": {"acme/prod": {...}}}`) or
 * `NAME=value` lines. The narrower scope wins. The file is read again when it changes.
 */
export class FileSecretsProvider implements SecretsProvider {
  readonly name = 'file';
  readonly #path: string;
  #loaded: LoadedFile | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  async resolve(refs: readonly string[], scope: SecretScope): Promise<ReadonlyMap<string, unknown>> {
    const file = await this.#load();
    const layers = [file.scopes[`${scope.tenantId}/${scope.environmentId}`], file.scopes[scope.tenantId], file.shared];
    const found = new Map<string, unknown>();
    for (const ref of refs) {
      const layer = layers.find((secrets) => secrets !== undefined && Object.hasOwn(secrets, ref));
      if (layer) found.set(ref, layer[ref]);
    }
    return found;
  }

  howTo(ref: string): string {
    return `add '${ref}' to ${this.#path}`;
  }

  async #load(): Promise<LoadedFile> {
    const handle = await open(this.#path, 'r').catch((error: NodeJS.ErrnoException) => {
      throw new AppError('CONFIG_INVALID', `the file of secrets ${this.#path} cannot be opened (${error.code})`);
    });
    try {
      // Of the open file, so that nobody can change it between the check and the reading.
      const stat = await handle.stat();
      if (!stat.isFile() || stat.size > MAX_BYTES) {
        throw new AppError('CONFIG_INVALID', `${this.#path} is no file of secrets`);
      }
      if (process.platform !== 'win32' && (stat.mode & 0o077) !== 0) {
        throw new AppError('CONFIG_INVALID', `${this.#path} can be opened by others; run: chmod 600 ${this.#path}`);
      }
      const stamp = `${stat.ino}:${stat.mtimeMs}:${stat.size}`;
      if (this.#loaded?.stamp !== stamp)
        this.#loaded = { stamp, ...parseFile(this.#path, await handle.readFile('utf8')) };
      return this.#loaded;
    } finally {
      await handle.close();
    }
  }
}

function parseFile(path: string, text: string): Omit<LoadedFile, 'stamp'> {
  if (!text.trimStart().startsWith('{')) return { shared: parseLines(path, text), scopes: {} };
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    // The parser's own message would quote the text.
    throw new AppError('CONFIG_INVALID', `${path} is not JSON`);
  }
  const { [SCOPES]: scopes = {}, ...shared } = root as Record<string, unknown>;
  if (!isMapping(scopes) || !Object.values(scopes).every(isMapping)) {
    throw new AppError(
      'CONFIG_INVALID',
      `\`${SCOPES}\` in ${path} must map a tenant, or tenant/environment, to secrets`,
    );
  }
  return { shared, scopes: scopes as Record<string, Secrets> };
}

/** `NAME=value`, `export NAME="value"`; a double-quoted value may hold \n, a single-quoted one is taken as it stands. */
function parseLines(path: string, text: string): Secrets {
  const secrets: Record<string, unknown> = {};
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const match = /^\s*(?:export\s+)?([A-Za-z_][\w.-]*)\s*=\s*(.*?)\s*$/.exec(line);
    if (!match) throw new AppError('CONFIG_INVALID', `line ${i + 1} of ${path} is not NAME=value`);
    const [, name, value = ''] = match;
    const quoted = /^(["'])(.*)\1$/.exec(value);
    if (!quoted) secrets[name!] = value;
    else secrets[name!] = quoted[1] === '"' ? quoted[2]!.replaceAll('\\n', '\n').replaceAll('\\"', '"') : quoted[2];
  }
  return secrets;
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
