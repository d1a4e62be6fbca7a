import { closestName } from '../lib/closest-name.ts';
import { LIMITS } from './limits.ts';
import {
  describe,
  getField,
  isNull,
  isText,
  type Located,
  type LocatedList,
  type LocatedMap,
  type LocatedScalar,
} from './located.ts';
import type { Form } from './playbook-schema.ts';
import { type Place, PRE_V10 } from './pre-v10.ts';
import type { ProblemCode, ProblemList } from './problems.ts';
import type { Position, SourceFile } from './source-file.ts';

export type Path = string;
export const under = (path: Path, key: string): Path => (path === '' ? key : `${path}.${key}`);
export const at = (path: Path, index: number): Path => `${path}[${index}]`;

const DURATION = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/;
const SECONDS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 };

/** Reads located values in the types of the language and reports what does not fit; a wrong value reads as undefined. */
export class FormReader {
  readonly source: SourceFile;
  readonly problems: ProblemList;
  /** Where each part of the plan stands in the file, by JSON pointer into the plan. */
  readonly positions = new Map<string, Position>();

  #comparisons = 0;

  constructor(source: SourceFile, problems: ProblemList) {
    this.source = source;
    this.problems = problems;
  }

  problem(code: ProblemCode, where: Located | number, path: Path, message: string): void {
    this.problems.add(code, typeof where === 'number' ? where : where.offset, path, message);
  }

  wrong(node: Located, path: Path, expected: string): undefined {
    this.problem(
      'INVALID_STEP_SCHEMA',
      node,
      path,
      `\`${lastPart(path)}\` must be ${expected}; it is ${describe(node)}`,
    );
    return undefined;
  }

  mark(pointer: string, where: Located | number): void {
    this.positions.set(pointer, this.source.position(typeof where === 'number' ? where : where.offset));
  }

  /** A mapping of the given form: unknown fields and missing ones are reported. An empty value reads as undefined. */
  form(
    node: Located | undefined,
    path: Path,
    form: Form,
    place?: Place,
    also: readonly string[] = [],
  ): LocatedMap | undefined {
    return node === undefined || isNull(node) ? undefined : this.item(node, path, form, place, also);
  }

  /** The same where an empty value makes no sense, such as an item of a list. */
  item(node: Located, path: Path, form: Form, place?: Place, also: readonly string[] = []): LocatedMap | undefined {
    const map = this.map(node, path);
    if (!map) return undefined;
    this.fields(map, path, [...Object.keys(form.properties), ...also], place);
    for (const name of form.required ?? []) if (!getField(map, name)) this.missing(map, path, name);
    return map;
  }

  fields(map: LocatedMap, path: Path, known: readonly string[], place?: Place): void {
    const names = new Set(known);
    for (const { key, keyOffset } of map.entries.values()) {
      if (names.has(key)) continue;
      const old = place === undefined ? undefined : (PRE_V10[place] as Record<string, string>)[key];
      if (old !== undefined && Object.hasOwn(PRE_V10[place!], key)) {
        this.problem('PRE_V10', keyOffset, under(path, key), `\`${key}\` is the language before v10: ${old}`);
        continue;
      }
      const near = this.suggest(key, known);
      const advice = near ?? (known.length > 0 ? `; known here: ${known.slice(0, 20).join(', ')}` : '');
      this.problem(
        'INVALID_STEP_SCHEMA',
        keyOffset,
        under(path, key),
        `there is no field \`${shorten(key)}\`${what(path)}${advice}`,
      );
    }
  }

  missing(map: LocatedMap, path: Path, name: string): void {
    this.problem('INVALID_STEP_SCHEMA', map, path, `\`${name}\` is missing${what(path)}`);
  }

  /** "; did you mean 'x'?", or undefined. A file full of mistakes does not get a suggestion for each. */
  suggest(name: string, candidates: Iterable<string>): string | undefined {
    const list = [...candidates];
    this.#comparisons += list.length;
    if (this.problems.full || this.#comparisons > LIMITS.comparisons) return undefined;
    const near = closestName(name, list);
    return near === undefined ? undefined : `; did you mean '${near}'?`;
  }

  map(node: Located, path: Path): LocatedMap | undefined {
    return node.kind === 'map' ? node : this.wrong(node, path, 'a mapping');
  }

  list(node: Located | undefined, path: Path): LocatedList | undefined {
    if (node === undefined || isNull(node)) return undefined;
    return node.kind === 'list' ? node : this.wrong(node, path, 'a list');
  }

  text(node: Located | undefined, path: Path, max = 65_536): string | undefined {
    if (node === undefined || isNull(node)) return undefined;
    if (!isText(node)) return this.wrong(node, path, 'a text');
    if (node.value.length > max) return this.wrong(node, path, `a text of at most ${max} characters`);
    return node.value;
  }

  /** A text that names something. */
  id(node: Located | undefined, path: Path): string | undefined {
    const value = this.text(node, path, 512);
    if (value === '') return this.wrong(node!, path, 'a text that is not empty');
    return value;
  }

  /** The same, or a number as it was written: version 3.10 is not 3.1. */
  label(node: Located | undefined, path: Path): string | undefined {
    if (node?.kind === 'scalar' && typeof node.value === 'number') return node.written;
    return this.id(node, path);
  }

  ids(node: Located | undefined, path: Path): string[] | undefined {
    const list = this.list(node, path);
    if (!list) return undefined;
    return list.items.flatMap((item, i) => {
      if (isNull(item)) this.wrong(item, at(path, i), 'a text');
      return this.id(item, at(path, i)) ?? [];
    });
  }

  word<const T extends readonly string[]>(node: Located | undefined, path: Path, words: T): T[number] | undefined {
    if (node === undefined || isNull(node)) return undefined;
    const value = isText(node) ? node.value : undefined;
    if (value !== undefined && words.includes(value)) return value;
    const near = value === undefined ? undefined : this.suggest(value, words);
    const found = value === undefined ? `it is ${describe(node)}` : `it is '${shorten(value)}'${near ?? ''}`;
    this.problem('INVALID_STEP_SCHEMA', node, path, `\`${lastPart(path)}\` must be ${words.join(' or ')}; ${found}`);
    return undefined;
  }

  flag(node: Located | undefined, path: Path): boolean | undefined {
    if (node === undefined || isNull(node)) return undefined;
    return node.kind === 'scalar' && typeof node.value === 'boolean'
      ? node.value
      : this.wrong(node, path, 'true or false');
  }

  count(node: Located | undefined, path: Path): number | undefined {
    if (node === undefined || isNull(node)) return undefined;
    const value = node.kind === 'scalar' ? node.value : undefined;
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
    return this.wrong(node, path, 'a whole number that is not negative');
  }

  /** A number that is not negative, or the text of a template, which the caller checks. */
  amount(node: Located | undefined, path: Path, minimum = 0): number | (LocatedScalar & { value: string }) | undefined {
    if (node === undefined || isNull(node)) return undefined;
    if (node.kind === 'scalar' && typeof node.value === 'number') {
      return node.value >= minimum ? node.value : this.wrong(node, path, `a number of at least ${minimum}`);
    }
    if (isText(node)) {
      if (node.value.includes('{{')) return node;
      if (/^\d+(\.\d+)?$/.test(node.value) && Number(node.value) >= minimum) return Number(node.value);
    }
    return this.wrong(node, path, 'a number, or a template that gives one');
  }

  /** Seconds: a number, a text such as 30s or 5m, or a template. */
  seconds(node: Located | undefined, path: Path): number | (LocatedScalar & { value: string }) | undefined {
    const match = isText(node) ? DURATION.exec(node.value) : null;
    if (match) return Number(match[1]) * SECONDS[match[2]!]!;
    return this.amount(node, path);
  }

  /** The one of several spellings that is given; giving two is a conflict. */
  oneOf(map: LocatedMap | undefined, path: Path, ...names: string[]): { node: Located; path: Path } | undefined {
    const given = names.flatMap((name) => {
      const entry = map?.entries.get(name);
      return entry ? [entry] : [];
    });
    for (const extra of given.slice(1)) {
      const message = `\`${extra.key}\` is another spelling of \`${given[0]!.key}\`; keep one of them`;
      this.problem('CONFLICT', extra.keyOffset, under(path, extra.key), message);
    }
    return given[0] && { node: given[0].value, path: under(path, given[0].key) };
  }
}

export function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

function lastPart(path: Path): string {
  return shorten(path.slice(path.lastIndexOf('.') + 1));
}

function what(path: Path): string {
  return path === '' ? ' in a playbook' : ` in \`${shorten(lastPart(path))}\``;
}
