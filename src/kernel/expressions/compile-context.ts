import type { Expression } from './ast.ts';
import type { Evaluation } from './evaluation.ts';
import { limitError } from './failure.ts';
import { unpackName } from './token.ts';

/** An expression after compilation: a closure, so that the tree is walked once and never again. */
export type Node = (ev: Evaluation) => unknown;

/** A root name that a template reads. */
export interface RootReference {
  readonly name: string;
  readonly offset: number;
  /** Under `is defined` or `default()`, where the name may be missing. */
  readonly isGuarded: boolean;
}

/** The tree is walked recursively, at compilation and in every evaluation. */
const MAX_TREE_DEPTH = 250;

/** What is known while a template is compiled. */
export class CompileContext {
  readonly references: RootReference[] = [];
  /** The last place seen, to blame for a mistake whose own place is unknown. */
  at = 0;
  /** Nodes compiled so far; the difference around a loop's body is the cost of one pass. */
  nodes = 0;
  slots = 0;
  #depth = 0;
  #blocks: Map<string, number>[] = [new Map()];

  within<T>(compile: () => T): T {
    if (++this.#depth > MAX_TREE_DEPTH)
      throw limitError('this expression is nested too deeply or is too long', this.at);
    this.nodes++;
    const result = compile();
    this.#depth--;
    return result;
  }

  /** Compiles the body of a loop or macro, whose names end with it. */
  inBlock<T>(compile: () => T): T {
    this.#blocks.push(new Map());
    const result = compile();
    this.#blocks.pop();
    return result;
  }

  /** The slot of a name in the innermost block. */
  declare(name: string): number {
    const block = this.#blocks.at(-1)!;
    const known = block.get(name);
    if (known !== undefined) return known;
    block.set(name, this.slots);
    return this.slots++;
  }

  /** Slots that may hold a name, innermost first. More than one, since a `set` in an `if` may not have happened. */
  slotsOf(name: string): number[] {
    const found: number[] = [];
    for (let i = this.#blocks.length - 1; i >= 0; i--) {
      const slot = this.#blocks[i]!.get(name);
      if (slot !== undefined) found.push(slot);
    }
    return found;
  }

  /** Notes the place of a node, if it has one, and returns the best known place. */
  locate(node: Expression): number {
    const offset = offsetOf(node);
    if (offset !== undefined) this.at = offset;
    return this.at;
  }
}

function offsetOf(node: Expression): number | undefined {
  switch (node.type) {
    case 'Identifier':
      return unpackName(node.value).offset;
    case 'BinaryExpression':
    case 'UnaryExpression':
      return node.operator.offset;
    case 'MemberExpression':
      return offsetOf(node.property) ?? offsetOf(node.object);
    case 'CallExpression':
      return offsetOf(node.callee);
    case 'FilterExpression':
      return offsetOf(node.filter);
    case 'KeywordArgumentExpression':
      return offsetOf(node.key);
    default:
      return undefined;
  }
}
