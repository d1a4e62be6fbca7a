import type { Expression, ForStatement, MacroStatement, Statement } from './ast.ts';
import { compileFilter } from './compile-call.ts';
import type { CompileContext, Node } from './compile-context.ts';
import { compileExpression } from './compile-expression.ts';
import { type Evaluation, MISSING } from './evaluation.ts';
import { forbidden, limitError, syntaxError, typeError } from './failure.ts';
import { LoopValue, MacroValue, NamespaceValue } from './local-values.ts';
import { toText } from './render-text.ts';
import { unpackName } from './token.ts';
import { describe, hasOwnValue, iterate, type Mapping, ownValue } from './values.ts';

/** The text that a template writes. */
export class Output {
  text = '';

  add(ev: Evaluation, piece: string): void {
    this.text += piece;
    ev.checkLength(this.text.length);
    if (piece.length >= 16) ev.charge(piece.length >> 4);
  }
}

const NEXT = 0;
const BREAK = 1;
const CONTINUE = 2;
type Flow = typeof NEXT | typeof BREAK | typeof CONTINUE;

/** A statement after compilation. */
export type Emit = (ev: Evaluation, out: Output) => Flow;

export function compileStatements(c: CompileContext, body: readonly Statement[]): Emit {
  const emits = body.map((statement) => c.within(() => compileStatement(c, statement)));
  const [only] = emits;
  if (emits.length === 1 && only !== undefined) return only;
  return (ev, out) => {
    for (const emit of emits) {
      const flow = emit(ev, out);
      if (flow !== NEXT) return flow;
    }
    return NEXT;
  };
}

function compileStatement(c: CompileContext, node: Statement): Emit {
  switch (node.type) {
    case 'StringLiteral': {
      const { value } = node;
      return (ev, out) => {
        out.add(ev, value);
        return NEXT;
      };
    }
    case 'If':
      return compileIf(c, node.test, node.body, node.alternate);
    case 'For':
      return compileFor(c, node);
    case 'Set':
      return compileSet(c, node.assignee, node.value, node.body);
    case 'Macro':
      return compileMacro(c, node);
    case 'FilterStatement':
      return compileFilterBlock(c, node.filter, node.body);
    case 'Break':
      return () => BREAK;
    case 'Continue':
      return () => CONTINUE;
    default: {
      const value = compileExpression(c, node);
      const { at } = c;
      return (ev, out) => {
        const result = value(ev);
        ev.at = at;
        out.add(ev, toText(ev, result));
        return NEXT;
      };
    }
  }
}

function compileIf(
  c: CompileContext,
  test: Expression,
  body: readonly Statement[],
  alternate: readonly Statement[],
): Emit {
  // A chain of `elif` is nested in the tree; here it is a list, so that its length is not a depth.
  const branches: { condition: Node; emit: Emit }[] = [];
  branches.push({ condition: compileExpression(c, test), emit: compileStatements(c, body) });
  let rest = alternate;
  for (let next = rest[0]; rest.length === 1 && next?.type === 'If'; next = rest[0]) {
    branches.push({ condition: compileExpression(c, next.test), emit: compileStatements(c, next.body) });
    rest = next.alternate;
  }
  const otherwise = compileStatements(c, rest);
  return (ev, out) => {
    for (const { condition, emit } of branches) if (ev.truthy(condition(ev))) return emit(ev, out);
    return otherwise(ev, out);
  };
}

function compileFor(c: CompileContext, node: ForStatement): Emit {
  const select = node.iterable.type === 'SelectExpression' ? node.iterable : undefined;
  const source = compileExpression(c, select?.lhs ?? node.iterable);
  const { at } = c;
  const before = c.nodes;
  const compiled = c.inBlock(() => {
    const assign = compileTargets(c, node.loopvar);
    const condition = select === undefined ? undefined : compileExpression(c, select.test);
    const loopSlot = c.declare('loop');
    const firstSlot = c.slots;
    const body = compileStatements(c, node.body);
    return { assign, condition, loopSlot, firstSlot, lastSlot: c.slots, body };
  });
  const weight = c.nodes - before + 1;
  const otherwise = compileStatements(c, node.defaultBlock);
  const { assign, condition, loopSlot, firstSlot, lastSlot, body } = compiled;
  return (ev, out) => {
    const found = source(ev);
    ev.at = at;
    let items = iterate(ev, found);
    if (condition !== undefined) {
      ev.charge(items.length * weight);
      items = items.filter((element) => {
        ev.at = at;
        assign(ev, element);
        return ev.truthy(condition(ev));
      });
    }
    if (items.length === 0) return otherwise(ev, out);
    const loop = new LoopValue(items);
    for (let i = 0; i < items.length; i++) {
      ev.at = at;
      ev.charge(weight);
      if (lastSlot > firstSlot) ev.locals.fill(MISSING, firstSlot, lastSlot);
      loop.index0 = i;
      ev.locals[loopSlot] = loop;
      assign(ev, items[i]);
      if (body(ev, out) === BREAK) break;
    }
    return NEXT;
  };
}

type Assign = (ev: Evaluation, value: unknown) => void;

/** `x` or `a, b`, the latter unpacking a list. */
function compileTargets(c: CompileContext, target: Expression): Assign {
  if (target.type === 'Identifier') {
    const slot = c.declare(localName(c, target));
    return (ev, value) => {
      ev.locals[slot] = value;
    };
  }
  if (target.type !== 'TupleLiteral' && target.type !== 'ArrayLiteral') {
    throw syntaxError('a name is expected here', c.locate(target));
  }
  const targets = target.value.map((part) => compileTargets(c, part));
  return (ev, value) => {
    const parts = iterate(ev, value);
    if (parts.length !== targets.length) {
      throw typeError(`${describe(value)} with ${parts.length} parts cannot be unpacked into ${targets.length} names`);
    }
    for (let i = 0; i < targets.length; i++) targets[i]!(ev, parts[i]);
  };
}

function localName(c: CompileContext, node: Expression): string {
  if (node.type !== 'Identifier') throw syntaxError('a name is expected here', c.locate(node));
  const { name, offset } = unpackName(node.value);
  if (offset === undefined) throw syntaxError(`'${name}' cannot be a name`, c.at);
  if (/^(?:true|false|none|null)$/i.test(name)) throw syntaxError(`'${name}' cannot be changed`, offset);
  return name;
}

function compileSet(
  c: CompileContext,
  assignee: Expression,
  valueNode: Expression | null,
  body: readonly Statement[],
): Emit {
  const value = valueNode === null ? captured(compileStatements(c, body)) : compileExpression(c, valueNode);
  const at = c.locate(assignee);
  if (assignee.type === 'MemberExpression') {
    if (assignee.computed || assignee.property.type !== 'Identifier') {
      throw forbidden('a template cannot change values; only `{% set ns.name = ... %}` on a namespace()', at);
    }
    const { name } = unpackName(assignee.property.value);
    const object = compileExpression(c, assignee.object);
    return (ev) => {
      const result = value(ev);
      const space = object(ev);
      ev.at = at;
      if (!(space instanceof NamespaceValue)) throw forbidden('only a namespace() can be changed by `set`');
      space.set(name, result);
      return NEXT;
    };
  }
  const assign = compileTargets(c, assignee);
  return (ev) => {
    const result = value(ev);
    ev.at = at;
    assign(ev, result);
    return NEXT;
  };
}

function captured(emit: Emit): Node {
  return (ev) => {
    const out = new Output();
    emit(ev, out);
    return out.text;
  };
}

function compileFilterBlock(c: CompileContext, filter: Expression, body: readonly Statement[]): Emit {
  const content = captured(compileStatements(c, body));
  const apply = compileFilter(c, content, filter);
  const { at } = c;
  return (ev, out) => {
    const result = apply(ev);
    ev.at = at;
    out.add(ev, toText(ev, result));
    return NEXT;
  };
}

function compileMacro(c: CompileContext, node: MacroStatement): Emit {
  const name = localName(c, node.name);
  const macroSlot = c.declare(name);
  const firstSlot = c.slots;
  const before = c.nodes;
  const { params, body } = c.inBlock(() => {
    const list = node.args.map((arg) => {
      const key = arg.type === 'KeywordArgumentExpression' ? arg.key : arg;
      const paramName = localName(c, key);
      const fallback = arg.type === 'KeywordArgumentExpression' ? compileExpression(c, arg.value) : undefined;
      return { name: paramName, fallback, slot: c.declare(paramName) };
    });
    const repeated = list.find((param, i) => list.findIndex((other) => other.name === param.name) !== i);
    if (repeated !== undefined) throw syntaxError(`the macro '${name}' has '${repeated.name}' twice`, c.at);
    return { params: list, body: compileStatements(c, node.body) };
  });
  const lastSlot = c.slots;
  const weight = c.nodes - before + 1;
  const call = (ev: Evaluation, args: readonly unknown[], keywords: Mapping): string => {
    checkMacroArguments(name, params, args, keywords);
    if (++ev.depth > ev.limits.maxDepth)
      throw limitError(`macros call each other more than ${ev.limits.maxDepth} deep`);
    ev.charge(weight);
    const saved = ev.locals.slice(firstSlot, lastSlot);
    ev.locals.fill(MISSING, firstSlot, lastSlot);
    for (const [i, param] of params.entries()) {
      const given = i < args.length ? args[i] : ownValue(keywords, param.name);
      const isGiven = i < args.length || hasOwnValue(keywords, param.name);
      ev.locals[param.slot] = isGiven ? given : param.fallback?.(ev);
    }
    const out = new Output();
    body(ev, out);
    for (const [i, value] of saved.entries()) ev.locals[firstSlot + i] = value;
    ev.depth--;
    return out.text;
  };
  return (ev) => {
    ev.locals[macroSlot] = new MacroValue(call);
    return NEXT;
  };
}

function checkMacroArguments(
  name: string,
  params: readonly { readonly name: string }[],
  args: readonly unknown[],
  keywords: Mapping,
): void {
  if (args.length > params.length) throw typeError(`the macro '${name}' takes ${params.length} arguments`);
  for (const key of Object.keys(keywords)) {
    const index = params.findIndex((param) => param.name === key);
    if (index === -1) throw typeError(`the macro '${name}' has no argument '${key}'`);
    if (index < args.length) throw typeError(`the macro '${name}' is given '${key}' twice`);
  }
}
