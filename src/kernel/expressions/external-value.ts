import type { Evaluation } from './evaluation.ts';
import { Special } from './special.ts';
import { attribute, hasOwnValue, isMapping, type Mapping, ownValue } from './values.ts';

export interface ExternalValueInit {
  readonly ref: string;
  readonly store?: string;
  readonly totalBytes?: number;
  /** The fields that were extracted when the value was stored. */
  readonly fields?: Mapping;
  readonly preview?: unknown;
}

/**
 * A result that lives outside the log. Templates read `_ref`, `_store`, `total_bytes`, `_preview` and the selected fields at
 * once; any other use (another attribute, iteration, length, comparison, the value itself) needs the whole value, which
 * `EvalOptions.resolve` gives, or else `NeedValues` is thrown.
 */
export class ExternalValue extends Special {
  override readonly description = 'a stored value';
  readonly ref: string;
  readonly fields: Mapping;
  readonly preview: unknown;
  readonly #known: Mapping;

  constructor(init: ExternalValueInit) {
    super();
    this.ref = init.ref;
    this.fields = init.fields ?? {};
    this.preview = init.preview;
    this.#known = { _ref: init.ref, _store: init.store, total_bytes: init.totalBytes, _preview: init.preview };
  }

  override attribute(evaluation: Evaluation, name: string): unknown {
    if (Object.hasOwn(this.#known, name)) return this.#known[name];
    if (hasOwnValue(this.fields, name)) return ownValue(this.fields, name);
    return dataOr(evaluation, this.open(evaluation), name);
  }

  override open(evaluation: Evaluation): unknown {
    return evaluation.resolve(this.ref);
  }
}

/**
 * A result with names beside its own: a loop's list with `count` and `failed`, a pipeline's last result with its tasks, a
 * child run's result with `status`. The extra names win over the value's keys, so that a template means the same whether
 * the value is at hand or stored. `.data` is the value itself unless the value has a key `data`.
 */
export class ResultValue extends Special {
  override readonly description = 'a result';
  readonly value: unknown;
  readonly extra: Mapping;

  constructor(value: unknown, extra: Mapping = {}) {
    super();
    this.value = value;
    this.extra = extra;
  }

  override attribute(evaluation: Evaluation, name: string): unknown {
    if (hasOwnValue(this.extra, name)) return ownValue(this.extra, name);
    return dataOr(evaluation, this.value, name);
  }

  override open(evaluation: Evaluation): unknown {
    return evaluation.open(this.value);
  }
}

function dataOr(evaluation: Evaluation, value: unknown, name: string): unknown {
  if (name === 'data' && !(value instanceof Special) && !(isMapping(value) && hasOwnValue(value, name))) return value;
  return attribute(evaluation, value, name);
}
