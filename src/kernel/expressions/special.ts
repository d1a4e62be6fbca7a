import type { Evaluation } from './evaluation.ts';

/**
 * A value that templates can hold but JSON cannot. Everything else that a template sees is JSON, so one `instanceof` tells
 * the two apart, and no field of these classes can be reached by a template except through `attribute`.
 */
export abstract class Special {
  /** With its article, for messages. */
  abstract readonly description: string;

  /** What `value.name` gives. */
  attribute(_evaluation: Evaluation, _name: string): unknown {
    return undefined;
  }

  /** The value behind it, where it only stands for another one. */
  open(_evaluation: Evaluation): unknown {
    return this;
  }

  /** The JSON value that leaves the template in its place; undefined if there is none. */
  toResult(_evaluation: Evaluation): unknown {
    return undefined;
  }
}
