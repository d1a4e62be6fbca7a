import { hasTemplate } from '../kernel/expressions/scan-blocks.ts';
import { at, type Path, under } from './form-reader.ts';
import { getField, isText, type Located, type LocatedMap, type LocatedScalar } from './located.ts';

/** Fields that hold secrets, without case and separators: `API_KEY`, `api-key` and `apiKey` are one. */
const ALWAYS_SECRET: ReadonlySet<string> = new Set([
  'password',
  'passwd',
  'passphrase',
  'privatekey',
  'clientsecret',
  'secretaccesskey',
]);
/** The same, but a plain name in them is a reference: `token: slack_bot`. */
const OFTEN_SECRET: ReadonlySet<string> = new Set([
  'accesstoken',
  'apikey',
  'apisecret',
  'apitoken',
  'authorization',
  'authtoken',
  'bearertoken',
  'idtoken',
  'proxyauthorization',
  'refreshtoken',
  'secret',
  'secretkey',
  'token',
  'xapikey',
  'xauthtoken',
]);
const NAME_LIKE = /^[a-z]+[0-9]?(?:[_./-][a-z]+[0-9]{0,2})+$/;
const REFERENCE =
  /^(?:projects\/[^\s]+\/secrets\/|arn:aws:secretsmanager:|(?:vault|env|secret|secrets|keychain|gcp|aws|azure)(?::|:\/\/)[^\s]+$)/;
// Bounded on every side: a text of a megabyte must not cost a megabyte for each of its characters.
const URL_WITH_PASSWORD = /\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s/:@{}]{0,200}:[^\s/@{}]{1,200}@/i;
/** Values that are secrets wherever they stand. */
const KNOWN_SHAPES: readonly RegExp[] = [
  /-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----/,
  /\bAKIA[0-9A-Z]{16}\b/,
  /\bgh[pousr]_[A-Za-z0-9]{36,}\b/,
  /\bglpat-[A-Za-z0-9_-]{20,}/,
  /\bxox[abprs]-[0-9]+-[0-9A-Za-z-]{10,}/,
  /\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}/,
];

/** What to do about a secret in a playbook. */
export const SECRET_CURE =
  'a plan holds references only: put the value into the secrets provider and write `auth: NAME`, or a `keychain` entry and `{{ keychain.NAME.field }}` in the tool';

export interface FoundSecret {
  readonly node: Located;
  readonly path: Path;
  /** What holds it, in words, without the value. */
  readonly what: string;
}

/** Every secret value in a playbook or a plan. */
export function findSecrets(root: Located): FoundSecret[] {
  const finder = new SecretFinder();
  finder.walk(root, '', undefined);
  return finder.found;
}

class SecretFinder {
  readonly found: FoundSecret[] = [];

  walk(node: Located, path: Path, key: string | undefined): void {
    if (node.kind === 'scalar') {
      const what = this.#secret(node, key);
      if (what) this.#report(node, path, what);
      return;
    }
    if (node.kind === 'list') {
      for (const [i, item] of node.items.entries()) {
        const itemPath = at(path, i);
        if (path === 'keychain' && item.kind === 'map') this.#keychainEntry(item, itemPath);
        else this.walk(item, itemPath, key);
      }
      return;
    }
    // The secrets tool and the keychain's `secrets` name where a secret is; the names are no secrets.
    const kind = getField(node, 'kind');
    const isReference = isText(kind) && kind.value === 'secrets';
    for (const entry of node.entries.values()) {
      this.walk(entry.value, under(path, entry.key), isReference ? undefined : entry.key);
    }
  }

  #keychainEntry(entry: LocatedMap, path: Path): void {
    const kind = getField(entry, 'kind');
    const name = isText(kind) ? kind.value : '';
    for (const { key, value } of entry.entries.values()) {
      const below = under(path, key);
      if (name === 'static' && key === 'map' && value.kind === 'map') {
        for (const field of value.entries.values()) {
          if (isLiteral(field.value))
            this.#report(field.value, under(below, field.key), 'a value of a static keychain entry');
          else this.walk(field.value, under(below, field.key), field.key);
        }
      } else if (name === 'bearer' && key === 'token' && isLiteral(value)) {
        this.#report(value, below, 'the token');
      } else if ((name === 'secrets' || name === 'secret_manager') && key === 'map') {
        const fields = value.kind === 'map' ? [...value.entries.values()] : [];
        for (const field of fields) this.walk(field.value, under(below, field.key), undefined);
      } else this.walk(value, below, key);
    }
  }

  #secret(node: LocatedScalar, key: string | undefined): string | undefined {
    if (node.value === null || typeof node.value === 'boolean' || node.value === '') return undefined;
    const text = String(node.value);
    if (KNOWN_SHAPES.some((shape) => shape.test(text))) return 'a key or token';
    if (URL_WITH_PASSWORD.test(text)) return 'a URL with a password';
    if (key === undefined || hasTemplate(text)) return undefined;
    const field = key.toLowerCase().replace(/[-_ ]/g, '');
    if (ALWAYS_SECRET.has(field)) return REFERENCE.test(text) ? undefined : `\`${key}\``;
    if (!OFTEN_SECRET.has(field) || REFERENCE.test(text) || NAME_LIKE.test(text)) return undefined;
    return `\`${key}\``;
  }

  #report(node: Located, path: Path, what: string): void {
    this.found.push({ node, path, what });
  }
}

function isLiteral(node: Located): boolean {
  return (
    node.kind === 'scalar' &&
    node.value !== null &&
    node.value !== '' &&
    !hasTemplate(String(node.value)) &&
    !REFERENCE.test(String(node.value))
  );
}
