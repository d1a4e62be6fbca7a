import type { Evaluation } from './evaluation.ts';
import { equals } from './operators.ts';
import { Special } from './special.ts';
import { hasOwnValue, type Mapping, ownValue, setOwn } from './values.ts';

/** `loop` inside a `for`. */
export class LoopValue extends Special {
  override readonly description = 'the loop variable';
  index0 = 0;
  readonly #items: readonly unknown[];
  #watched: readonly unknown[] | undefined;

  constructor(items: readonly unknown[]) {
    super();
    this.#items = items;
  }

  override attribute(_evaluation: Evaluation, name: string): unknown {
    const { length } = this.#items;
    switch (name) {
      case 'index':
        return this.index0 + 1;
      case 'index0':
        return this.index0;
      case 'revindex':
        return length - this.index0;
      case 'revindex0':
        return length - this.index0 - 1;
      case 'first':
        return this.index0 === 0;
      case 'last':
        return this.index0 === length - 1;
      case 'length':
        return length;
      case 'previtem':
        return this.#items[this.index0 - 1];
      case 'nextitem':
        return this.#items[this.index0 + 1];
      case 'depth': // counts recursive calls of one loop, which do not exist here
        return 1;
      case 'depth0':
        return 0;
      default:
        return undefined;
    }
  }

  cycle(values: readonly unknown[]): unknown {
    return values[this.index0 % values.length];
  }

  /** Whether the values differ from those of the pass before. */
  changed(evaluation: Evaluation, values: readonly unknown[]): boolean {
    const before = this.#watched;
    this.#watched = values;
    return before === undefined || !equals(evaluation, [...before], [...values]);
  }
}

/** `namespace()`: the one thing that a template can change, and it ends with the evaluation. */
export class NamespaceValue extends Special {
  override readonly description = 'a namespace';
  readonly #fields: Record<string, unknown> = {};

  override attribute(_evaluation: Evaluation, name: string): unknown {
    return hasOwnValue(this.#fields, name) ? ownValue(this.#fields, name) : undefined;
  }

  set(name: string, value: unknown): void {
    setOwn(this.#fields, name, value);
  }

  override toResult(): Mapping {
    return this.#fields;
  }
}

export class MacroValue extends Special {
  override readonly description = 'a macro';
  readonly call: (evaluation: Evaluation, args: readonly unknown[], keywords: Mapping) => string;

  constructor(call: MacroValue['call']) {
    super();
    this.call = call;
  }
}
