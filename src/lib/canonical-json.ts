/**
 * Canonical JSON (RFC 8785): keys sorted by UTF-16 code unit, no spaces, numbers as ECMAScript prints them.
 * Two values that mean the same give the same text, so that the text can be hashed.
 */
export function canonicalJson(value: unknown): string {
  return write(value, 0);
}

/** Deeper values are hostile or a mistake, and would exhaust the stack. */
const MAX_DEPTH = 200;

function write(value: unknown, depth: number): string {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError('canonical JSON has no NaN or Infinity');
    return Object.is(value, -0) ? '0' : String(value);
  }
  if (value === null) return 'null';
  if (value === true) return 'true';
  if (value === false) return 'false';
  if (typeof value !== 'object') throw new TypeError(`canonical JSON has no ${typeof value}`);
  if (depth >= MAX_DEPTH) throw new TypeError(`canonical JSON is limited to ${MAX_DEPTH} levels`);
  if (Array.isArray(value)) return writeArray(value, depth);
  // A Date or a Map would be written as {} and lose its meaning without a word.
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null)
    throw new TypeError('canonical JSON takes plain objects only');
  return writeObject(value as Record<string, unknown>, depth);
}

function writeArray(value: readonly unknown[], depth: number): string {
  let out = '[';
  for (let i = 0; i < value.length; i++) {
    if (i > 0) out += ',';
    const item = value[i];
    out += item === undefined ? 'null' : write(item, depth + 1);
  }
  return `${out}]`;
}

function writeObject(value: Record<string, unknown>, depth: number): string {
  const keys = Object.keys(value);
  sortKeys(keys);
  let out = '';
  for (const key of keys) {
    const item = value[key];
    if (item === undefined) continue;
    out += (out === '' ? '{' : ',') + keyText(key) + write(item, depth + 1);
  }
  return out === '' ? '{}' : `${out}}`;
}

/** In place and by UTF-16 code unit. For the few keys of most objects this takes a fraction of the work of Array.sort. */
function sortKeys(keys: string[]): void {
  if (keys.length > 16) {
    keys.sort();
    return;
  }
  for (let i = 1; i < keys.length; i++) {
    const key = keys[i] as string;
    let at = i;
    while (at > 0 && (keys[at - 1] as string) > key) {
      keys[at] = keys[at - 1] as string;
      at -= 1;
    }
    keys[at] = key;
  }
}

/** Most short texts need no escapes, and quoting those is a third of the work. */
export function quote(text: string): string {
  return text.length <= 64 && PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}
const PLAIN = /^[ !#-[\]-~]*$/;

const keyTexts = new Map<string, string>();
const MAX_KEY_TEXTS = 2000;

/** Field names come again and again; user data may bring any number of others, which are not remembered for ever. */
function keyText(key: string): string {
  const known = keyTexts.get(key);
  if (known !== undefined) return known;
  const text = `${JSON.stringify(key)}:`;
  if (keyTexts.size >= MAX_KEY_TEXTS) keyTexts.clear();
  keyTexts.set(key, text);
  return text;
}

/** Where in a value that canonical JSON refused the trouble is: a JSON pointer, and what is wrong there. */
export function jsonProblem(value: unknown): { readonly path: string; readonly message: string } | undefined {
  for (let path = '', at = value; ; ) {
    const children: [string, unknown][] =
      typeof at === 'object' && at !== null ? Object.entries(at).filter(([, item]) => item !== undefined) : [];
    const bad = children.find(([, item]) => refusal(item) !== undefined);
    if (!bad || path.split('/').length > MAX_DEPTH) {
      const message = refusal(at);
      return message === undefined ? undefined : { path, message };
    }
    path += `/${bad[0].replaceAll('~', '~0').replaceAll('/', '~1')}`;
    at = bad[1];
  }
}

function refusal(value: unknown): string | undefined {
  try {
    canonicalJson(value);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
