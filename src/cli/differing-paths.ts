import { canonicalJson } from '../lib/canonical-json.ts';

/** One place inside two values; a side is undefined where only the other has it. */
export interface DifferingPath {
  /** `.items[2].name`; empty where the whole values differ. */
  readonly path: string;
  readonly a: unknown;
  readonly b: unknown;
}

/** Where two values of JSON differ, as deep as it can be said. */
export function differingPaths(a: unknown, b: unknown, path = ''): DifferingPath[] {
  if (a !== undefined && b !== undefined && canonicalJson(a) === canonicalJson(b)) return [];
  if (Array.isArray(a) && Array.isArray(b))
    return Array.from({ length: Math.max(a.length, b.length) }, (_, i) => i).flatMap((i) =>
      differingPaths(a[i], b[i], `${path}[${i}]`),
    );
  if (isMapping(a) && isMapping(b)) {
    const own = (side: Mapping, key: string): unknown => (Object.hasOwn(side, key) ? side[key] : undefined);
    const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])].sort();
    return keys.flatMap((key) => differingPaths(own(a, key), own(b, key), `${path}${keyText(key)}`));
  }
  return [{ path, a, b }];
}

type Mapping = Readonly<Record<string, unknown>>;

const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const keyText = (key: string): string => (/^[\w-]+$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`);
