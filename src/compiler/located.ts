/** A YAML value that knows where it stands. Aliased values are shared: the same object at several places. */
export type Located = LocatedMap | LocatedList | LocatedScalar;

export interface LocatedEntry {
  readonly key: string;
  readonly keyOffset: number;
  readonly value: Located;
}

export interface LocatedMap {
  readonly kind: 'map';
  readonly offset: number;
  readonly end: number;
  readonly entries: ReadonlyMap<string, LocatedEntry>;
}

export interface LocatedList {
  readonly kind: 'list';
  readonly offset: number;
  readonly end: number;
  readonly items: readonly Located[];
}

export interface LocatedScalar {
  readonly kind: 'scalar';
  readonly offset: number;
  readonly end: number;
  readonly value: string | number | boolean | null;
  readonly style: 'plain' | 'single' | 'double' | 'literal' | 'folded';
  /** The text as written, for plain scalars: `3.10` stays 3.10. */
  readonly written: string;
}

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** The value of a field; a field that is left empty is the same as none. */
export function getField(map: LocatedMap, key: string): Located | undefined {
  const value = map.entries.get(key)?.value;
  return isNull(value) ? undefined : value;
}

export function isText(node: Located | undefined): node is LocatedScalar & { readonly value: string } {
  return node?.kind === 'scalar' && typeof node.value === 'string';
}

export function isNull(node: Located | undefined): boolean {
  return node?.kind === 'scalar' && node.value === null;
}

/** What a value is, in words for a message. */
export function describe(node: Located): string {
  if (node.kind === 'map') return 'a mapping';
  if (node.kind === 'list') return 'a list';
  if (node.value === null) return 'empty';
  if (typeof node.value === 'string') return 'a text';
  return typeof node.value === 'number' ? 'a number' : `${node.value}`;
}

/** The plain value. `visit` sees each text with its path and may replace it. */
export function toJson(
  node: Located,
  path: string,
  visit?: (node: LocatedScalar & { value: string }, path: string) => string,
): Json {
  if (node.kind === 'scalar') {
    return visit && isText(node) ? visit(node, path) : node.value;
  }
  if (node.kind === 'list') return node.items.map((item, i) => toJson(item, `${path}/${i}`, visit));
  const object: { [key: string]: Json } = {};
  for (const { key, value } of node.entries.values()) {
    object[key] = toJson(value, `${path}/${pointerPart(key)}`, visit);
  }
  return object;
}

/** A key as a part of a JSON pointer. */
export function pointerPart(key: string): string {
  return key.includes('~') || key.includes('/') ? key.replaceAll('~', '~0').replaceAll('/', '~1') : key;
}

/** Plain JSON as located values, for checks that are written for those. */
export function locate(value: unknown): Located {
  const place = { offset: 0, end: 0 };
  if (Array.isArray(value)) return { kind: 'list', ...place, items: value.map(locate) };
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([key, item]): [string, LocatedEntry] => [
      key,
      { key, keyOffset: 0, value: locate(item) },
    ]);
    return { kind: 'map', ...place, entries: new Map(entries) };
  }
  const isScalar = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
  return { kind: 'scalar', ...place, value: isScalar ? value : null, style: 'plain', written: '' };
}
