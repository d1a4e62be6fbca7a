import type { BinaryExpression, Expression, Identifier, MemberExpression, SliceExpression } from './ast.ts';
import { compileCall, compileFilter } from './compile-call.ts';
import type { CompileContext, Node } from './compile-context.ts';
import { type Evaluation, MISSING } from './evaluation.ts';
import { syntaxError, undefinedError } from './failure.ts';
import * as operators from './operators.ts';
import { unpackName } from './token.ts';
import { attribute, item, keyText, setOwn } from './values.ts';

const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
  ['null', null],
]);

/** Compiles an expression. `guarded`: a root name at its start may be missing, and is then undefined. */
export function compileExpression(c: CompileContext, node: Expression, guarded = false): Node {
  return c.within(() => compile(c, node, guarded));
}

function compile(c: CompileContext, node: Expression, guarded: boolean): Node {
  switch (node.type) {
    case 'IntegerLiteral':
    case 'FloatLiteral': {
      const { value } = node;
      return (ev) => ev.number(value);
    }
    case 'StringLiteral': {
      const { value } = node;
      return () => value;
    }
    case 'Identifier':
      return compileIdentifier(c, node, guarded);
    case 'MemberExpression':
      return compileMember(c, node, guarded);
    case 'CallExpression':
      return compileCall(c, node, guarded);
    case 'FilterExpression':
      return compileFilter(c, node.operand, node.filter);
    case 'BinaryExpression':
      return compileBinary(c, node);
    case 'UnaryExpression':
      return compileUnary(c, node.operator.value, node.argument, node.operator.offset);
    case 'Ternary': {
      const condition = compileExpression(c, node.condition);
      const yes = compileExpression(c, node.trueExpr);
      const no = compileExpression(c, node.falseExpr);
      return (ev) => (ev.truthy(condition(ev)) ? yes(ev) : no(ev));
    }
    case 'SelectExpression': {
      const condition = compileExpression(c, node.test);
      const yes = compileExpression(c, node.lhs);
      return (ev) => (ev.truthy(condition(ev)) ? yes(ev) : undefined);
    }
    case 'ArrayLiteral':
    case 'TupleLiteral': {
      const items = node.value.map((element) => compileExpression(c, element));
      return (ev) => {
        const out: unknown[] = [];
        for (const element of items) out.push(element(ev));
        ev.charge(1 + out.length);
        return out;
      };
    }
    case 'ObjectLiteral':
      return compileMapping(c, node.value);
    case 'KeywordArgumentExpression':
      throw syntaxError('`name=value` belongs into the brackets of a call', c.locate(node));
    case 'SpreadExpression':
    case 'KeywordSpreadExpression':
      throw syntaxError('`*` and `**` cannot unpack arguments here', c.locate(node));
    case 'SliceExpression':
    case 'TestExpression':
      throw syntaxError('this expression is not understood', c.at);
  }
}

function compileIdentifier(c: CompileContext, node: Identifier, guarded: boolean): Node {
  const { name, offset } = unpackName(node.value);
  if (offset === undefined) throw syntaxError(`unexpected '${name}'`, c.at);
  c.at = offset;
  const constant = CONSTANTS.get(name);
  if (constant !== undefined) return () => constant;
  const slots = c.slotsOf(name);
  if (slots.length > 0) return readLocal(name, slots);
  c.references.push({ name, offset, isGuarded: guarded });
  if (guarded) {
    return (ev) => {
      const value = ev.root(name);
      return value === MISSING ? undefined : value;
    };
  }
  return (ev) => {
    const value = ev.root(name);
    if (value === MISSING) throw undefinedError(`'${name}' is not defined here`, offset, { name });
    return value;
  };
}

function readLocal(name: string, slots: readonly number[]): Node {
  return (ev) => {
    for (const slot of slots) {
      const value = ev.locals[slot];
      if (value !== MISSING) return value;
    }
    // A `set` that did not happen: the name of the scope shows through, as in Jinja.
    const value = ev.root(name);
    return value === MISSING ? undefined : value;
  };
}

function compileMember(c: CompileContext, node: MemberExpression, guarded: boolean): Node {
  const object = compileExpression(c, node.object, guarded);
  const { property } = node;
  if (!node.computed) {
    if (property.type === 'IntegerLiteral') {
      const index = property.value;
      return (ev) => item(ev, object(ev), index);
    }
    if (property.type !== 'Identifier') throw syntaxError('after the dot a name is missing', c.locate(node));
    const { name } = unpackName(property.value);
    return (ev) => attribute(ev, object(ev), name);
  }
  if (property.type === 'SliceExpression') return compileSlice(c, object, property);
  if (property.type === 'StringLiteral') {
    const name = property.value;
    return (ev) => attribute(ev, object(ev), name);
  }
  const key = compileExpression(c, property);
  return (ev) => item(ev, object(ev), ev.open(key(ev)));
}

function compileSlice(c: CompileContext, object: Node, node: SliceExpression): Node {
  const bound = (part: Expression | undefined): Node =>
    part === undefined ? () => undefined : compileExpression(c, part);
  const start = bound(node.start);
  const stop = bound(node.stop);
  const step = bound(node.step);
  const { at } = c;
  return (ev) => {
    const value = object(ev);
    const bounds = [start(ev), stop(ev), step(ev)] as const;
    ev.at = at;
    return operators.slice(ev, value, bounds);
  };
}

function compileMapping(c: CompileContext, entries: ReadonlyMap<Expression, Expression>): Node {
  const pairs = Array.from(
    entries,
    ([key, value]) => [compileExpression(c, key), compileExpression(c, value)] as const,
  );
  const { at } = c;
  return (ev) => {
    const out: Record<string, unknown> = {};
    for (const [key, value] of pairs) {
      const name = ev.open(key(ev));
      const content = value(ev);
      ev.at = at;
      setOwn(out, keyText(name), content);
    }
    ev.charge(1 + pairs.length);
    return out;
  };
}

function compileUnary(c: CompileContext, operator: string, operand: Expression, at: number): Node {
  const argument = compileExpression(c, operand);
  if (operator === 'not') return (ev) => !ev.truthy(argument(ev));
  const sign = operator === '-' ? -1 : 1;
  return (ev) => {
    const value = argument(ev);
    ev.at = at;
    return operators.negate(ev, value, sign);
  };
}

type Operation = (ev: Evaluation, left: unknown, right: unknown) => unknown;

const ARITHMETIC: Readonly<Record<string, Operation>> = {
  '+': operators.add,
  '-': operators.subtract,
  '*': operators.multiply,
  '/': operators.divide,
  '//': operators.floorDivide,
  '%': operators.modulo,
  '**': operators.power,
  '~': operators.concatenate,
};

const COMPARISONS: Readonly<Record<string, (ev: Evaluation, left: unknown, right: unknown) => boolean>> = {
  '==': (ev, left, right) => operators.equals(ev, left, right),
  '!=': (ev, left, right) => !operators.equals(ev, left, right),
  '<': (ev, left, right) => operators.compare(ev, left, right, '<') < 0,
  '<=': (ev, left, right) => operators.compare(ev, left, right, '<=') <= 0,
  '>': (ev, left, right) => operators.compare(ev, left, right, '>') > 0,
  '>=': (ev, left, right) => operators.compare(ev, left, right, '>=') >= 0,
  in: (ev, left, right) => operators.contains(ev, right, left),
  'not in': (ev, left, right) => !operators.contains(ev, right, left),
};

function compileBinary(c: CompileContext, node: BinaryExpression): Node {
  const operator = node.operator.value;
  const at = node.operator.offset;
  if (Object.hasOwn(COMPARISONS, operator)) return compileComparison(c, node);
  const left = compileExpression(c, node.left);
  const right = compileExpression(c, node.right);
  if (operator === 'and') {
    return (ev) => {
      const value = left(ev);
      return ev.truthy(value) ? right(ev) : value;
    };
  }
  if (operator === 'or') {
    return (ev) => {
      const value = left(ev);
      return ev.truthy(value) ? value : right(ev);
    };
  }
  const apply = Object.hasOwn(ARITHMETIC, operator) ? ARITHMETIC[operator] : undefined;
  if (apply === undefined) throw syntaxError(`unknown operator '${operator}'`, at);
  return (ev) => {
    const a = left(ev);
    const b = right(ev);
    ev.at = at;
    return apply(ev, a, b);
  };
}

function compileComparison(c: CompileContext, node: BinaryExpression): Node {
  const { left } = node;
  // `a < b < c` compares b once with each side; `(a < b) < c` compares the truth of the first.
  const isChain =
    left.type === 'BinaryExpression' &&
    Object.hasOwn(COMPARISONS, left.operator.value) &&
    left.operator.group === node.operator.group;
  if (isChain) return compileChain(c, node);
  const compare = COMPARISONS[node.operator.value]!;
  const at = node.operator.offset;
  const a = compileExpression(c, left);
  if (node.right.type === 'StringLiteral' && (node.operator.value === '==' || node.operator.value === '!=')) {
    // The commonest condition of all: `event.name == 'step.done'`.
    const text = node.right.value;
    const wanted = node.operator.value === '==';
    return (ev) => {
      const value = a(ev);
      if (typeof value === 'string') return (value === text) === wanted;
      ev.at = at;
      return compare(ev, value, text);
    };
  }
  const b = compileExpression(c, node.right);
  return (ev) => {
    const first = a(ev);
    const second = b(ev);
    ev.at = at;
    return compare(ev, first, second);
  };
}

function compileChain(c: CompileContext, node: BinaryExpression): Node {
  const links: { compare: (typeof COMPARISONS)[string]; at: number; operand: Node }[] = [];
  let current: Expression = node;
  while (
    current.type === 'BinaryExpression' &&
    Object.hasOwn(COMPARISONS, current.operator.value) &&
    current.operator.group === node.operator.group
  ) {
    const { operator, right }: BinaryExpression = current;
    links.unshift({ compare: COMPARISONS[operator.value]!, at: operator.offset, operand: compileExpression(c, right) });
    current = current.left;
  }
  const first = compileExpression(c, current);
  return (ev) => {
    let left = first(ev);
    for (const { compare, at, operand } of links) {
      const right = operand(ev);
      ev.at = at;
      if (!compare(ev, left, right)) return false;
      left = right;
    }
    return true;
  };
}
