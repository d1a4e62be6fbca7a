import type { Evaluation } from './evaluation.ts';
import { typeError } from './failure.ts';
import { Special } from './special.ts';
import { guardDepth, isMapping, type Mapping, ownValue, sortedKeys } from './values.ts';

/**
 * How a value appears inside text: as Python prints it (`True`, `None`, `1.5`, nothing for undefined), but lists and
 * mappings as JSON, which is what a template that builds a body or a command wants.
 */
export function toText(evaluation: Evaluation, value: unknown): string {
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
      return numberText(value);
    case 'boolean':
      return value ? 'True' : 'False';
    case 'undefined':
      return '';
    default:
      if (value === null) return 'None';
      return toTextSlowly(evaluation, value);
  }
}

function toTextSlowly(evaluation: Evaluation, value: unknown): string {
  const opened = evaluation.open(value);
  if (!(opened instanceof Special)) {
    if (typeof opened === 'object' && opened !== null) return toJson(evaluation, opened);
    return opened === value ? evaluation.refuse(opened, 'printed') : toText(evaluation, opened);
  }
  const result = opened.toResult(evaluation);
  if (result === undefined) evaluation.refuse(opened, 'printed');
  return toText(evaluation, result);
}

/** A number as Python prints it, except that `2.0` is `2`: JSON does not tell them apart. */
export function numberText(value: number): string {
  if (Number.isInteger(value)) {
    if (Object.is(value, -0)) return '0';
    return Math.abs(value) < 1e21 ? String(value) : BigInt(value).toString();
  }
  if (Math.abs(value) >= 1e-4) return String(value);
  return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
}

/** JSON with sorted keys and a space after `,` and `:`, as Jinja's `tojson` writes it (but without HTML escapes). */
export function toJson(evaluation: Evaluation, value: unknown, indent?: string): string {
  const out = new JsonWriter(evaluation, indent);
  out.write(value, 0);
  return out.finish();
}

class JsonWriter {
  readonly #evaluation: Evaluation;
  readonly #indent: string | undefined;
  #text = '';

  constructor(evaluation: Evaluation, indent: string | undefined) {
    this.#evaluation = evaluation;
    this.#indent = indent;
  }

  write(value: unknown, depth: number): void {
    const scalar = scalarJson(value);
    if (scalar !== undefined) this.#add(scalar);
    else if (typeof value === 'object' && value !== null) this.#writeObject(value, depth);
    else this.#evaluation.refuse(value, 'written as JSON');
  }

  finish(): string {
    return this.#text;
  }

  #writeObject(value: object, depth: number): void {
    guardDepth(depth);
    if (value instanceof Special) {
      this.write(this.#plain(value), depth + 1);
    } else if (Array.isArray(value)) {
      this.#writeItems('[', ']', value.length, depth, (i) => this.write(value[i], depth + 1));
    } else if (isMapping(value)) {
      const keys = presentKeys(value);
      this.#writeItems('{', '}', keys.length, depth, (i) => {
        const key = keys[i]!;
        this.#add(`${JSON.stringify(key)}: `);
        this.write(ownValue(value, key), depth + 1);
      });
    } else {
      this.#evaluation.refuse(value, 'written as JSON');
    }
  }

  #plain(value: Special): unknown {
    const opened = value.open(this.#evaluation);
    if (!(opened instanceof Special)) return opened;
    return opened.toResult(this.#evaluation) ?? this.#evaluation.refuse(opened, 'written as JSON');
  }

  #writeItems(open: string, close: string, count: number, depth: number, each: (index: number) => void): void {
    if (count === 0) {
      this.#add(open + close);
      return;
    }
    const line = this.#indent === undefined ? '' : `\n${this.#indent.repeat(depth + 1)}`;
    this.#add(open + line);
    for (let i = 0; i < count; i++) {
      if (i > 0) this.#add(line === '' ? ', ' : `,${line}`);
      each(i);
    }
    this.#add((line === '' ? '' : `\n${this.#indent?.repeat(depth) ?? ''}`) + close);
  }

  #add(text: string): void {
    this.#evaluation.charge(1 + (text.length >> 4));
    this.#text += text;
    this.#evaluation.checkLength(this.#text.length);
  }
}

function scalarJson(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      if (!Number.isFinite(value)) throw typeError('JSON has no infinite number');
      return Object.is(value, -0) ? '0' : String(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'undefined':
      return 'null';
    default:
      return value === null ? 'null' : undefined;
  }
}

/** A key whose value is undefined is not there, as in any JSON text. */
function presentKeys(value: Mapping): string[] {
  return sortedKeys(value).filter((key) => ownValue(value, key) !== undefined);
}
