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
  if (typeof value === 'string') return JSON.stringify(value);
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
  if (keys.length > 1) keys.sort();
  let out = '{';
  for (const key of keys) {
    const item = value[key];
    if (item === undefined) continue;
    out += `${out.length > 1 ? ',' : ''}${JSON.stringify(key)}:${write(item, depth + 1)}`;
  }
  return `${out}}`;
}
