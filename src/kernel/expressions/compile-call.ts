import { didYouMean } from '../../lib/closest-name.ts';
import type { CallExpression, Expression } from './ast.ts';
import { bindArguments, type Callable, NO_KEYWORDS } from './callable.ts';
import type { CompileContext, Node } from './compile-context.ts';
import { compileExpression } from './compile-expression.ts';
import { type Evaluation, MISSING } from './evaluation.ts';
import { forbidden, syntaxError, typeError } from './failure.ts';
import { FILTERS, REFUSED_FILTERS } from './filters/filters.ts';
import { GLOBALS, REFUSED_GLOBALS } from './globals.ts';
import { MacroValue } from './local-values.ts';
import { METHODS, REFUSED_METHODS } from './methods.ts';
import { NEGATED_TEST_PREFIX, TEST_PREFIX } from './rewrite-tests.ts';
import { TESTS } from './tests.ts';
import { unpackName } from './token.ts';
import { type Mapping, setOwn } from './values.ts';

interface Arguments {
  readonly positional: readonly Node[];
  readonly keywords: readonly (readonly [string, Node])[];
}

/** Filters and tests whose first argument names a filter or test, to check that name before anything runs. */
const NAMES_A_FILTER: ReadonlySet<string> = new Set(['map']);
const NAMES_A_TEST: ReadonlyMap<string, number> = new Map([
  ['select', 0],
  ['reject', 0],
  ['selectattr', 1],
  ['rejectattr', 1],
]);

/** `name(...)` or `value.name(...)`. */
export function compileCall(c: CompileContext, node: CallExpression, guarded: boolean): Node {
  const { callee } = node;
  const at = c.locate(node);
  if (callee.type === 'Identifier') return compileFunction(c, unpackName(callee.value).name, node.args, at);
  if (callee.type !== 'MemberExpression' || callee.computed || callee.property.type !== 'Identifier') {
    throw syntaxError('only functions, macros and methods can be called', at);
  }
  const { name } = unpackName(callee.property.value);
  if (Object.hasOwn(REFUSED_METHODS, name)) {
    throw forbidden(`'.${name}()' changes its value, which a template cannot; ${REFUSED_METHODS[name]}`, at);
  }
  const method = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
  if (method === undefined) {
    throw syntaxError(`there is no method '${name}'${didYouMean(name, Object.keys(METHODS))}`, at, { name });
  }
  const object = compileExpression(c, callee.object, guarded);
  const call = bindCall(c, `the method '${name}'`, method, node.args, at);
  return (ev) => {
    const target = ev.open(object(ev));
    return target === undefined ? undefined : call(ev, target);
  };
}

function compileFunction(c: CompileContext, name: string, args: readonly Expression[], at: number): Node {
  const slots = c.slotsOf(name);
  if (slots.length > 0) return compileMacroCall(c, name, slots, args, at);
  if (Object.hasOwn(REFUSED_GLOBALS, name)) throw forbidden(`'${name}()' is not allowed: ${REFUSED_GLOBALS[name]}`, at);
  const found = Object.hasOwn(GLOBALS, name) ? GLOBALS[name] : undefined;
  if (found === undefined) {
    const hint = Object.hasOwn(FILTERS, name) ? `; '${name}' is a filter: write \`value | ${name}\`` : '';
    const near = hint === '' ? didYouMean(name, Object.keys(GLOBALS)) : hint;
    throw syntaxError(`there is no function '${name}'${near}`, at, { name });
  }
  const call = bindCall(c, `the function '${name}'`, found, args, at);
  return (ev) => call(ev, undefined);
}

function compileMacroCall(
  c: CompileContext,
  name: string,
  slots: readonly number[],
  args: readonly Expression[],
  at: number,
): Node {
  const { positional, keywords } = compileArguments(c, args);
  return (ev) => {
    const slot = slots.find((index) => ev.locals[index] !== MISSING);
    const macro = slot === undefined ? undefined : ev.locals[slot];
    ev.at = at;
    if (!(macro instanceof MacroValue)) throw typeError(`'${name}' is not a macro`);
    return macro.call(ev, evaluateAll(ev, positional), evaluateKeywords(ev, keywords));
  };
}

/** What stands before the bar: an expression, or the compiled body of a filter block. */
type Operand = Expression | Node;

function compileOperand(c: CompileContext, operand: Operand, guarded = false): Node {
  return typeof operand === 'function' ? operand : compileExpression(c, operand, guarded);
}

/** `operand | filter(...)`, and `operand is test(...)`, which arrives as a filter. */
export function compileFilter(c: CompileContext, operand: Operand, filter: Expression): Node {
  const isCall = filter.type === 'CallExpression';
  const callee = isCall ? filter.callee : filter;
  if (callee.type !== 'Identifier') {
    throw syntaxError(
      'after `|` stands the name of a filter; put `(value | filter)` in brackets to go on',
      c.locate(filter),
    );
  }
  const { name, offset } = unpackName(callee.value);
  const at = offset ?? c.at;
  c.at = at;
  const args = isCall ? filter.args : [];
  if (name.startsWith(TEST_PREFIX)) return compileTest(c, name, operand, args, at);
  if (Object.hasOwn(REFUSED_FILTERS, name)) throw forbidden(`'${name}' is not allowed: ${REFUSED_FILTERS[name]}`, at);
  const found = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
  if (found === undefined) {
    throw syntaxError(`there is no filter '${name}'${didYouMean(name, Object.keys(FILTERS))}`, at, { name });
  }
  checkNamedArgument(name, args, at);
  if (name === 'default' || name === 'd') return compileDefault(c, found, operand, args, at);
  const input = compileOperand(c, operand);
  const call = bindCall(c, `the filter '${name}'`, found, args, at);
  return (ev) => call(ev, ev.open(input(ev)));
}

/** Its argument is evaluated only if it is needed, so that `a | default(b)` does not ask for a `b` that is not there. */
function compileDefault(
  c: CompileContext,
  filter: Callable,
  operand: Operand,
  args: readonly Expression[],
  at: number,
): Node {
  const input = compileOperand(c, operand, true);
  const { positional, keywords } = compileArguments(c, args);
  c.at = at;
  const [fallback, boolean] = bindArguments("the filter 'default'", filter, positional, keywords);
  return (ev) => {
    const value = input(ev);
    const takesFalse = boolean !== undefined && ev.truthy(boolean(ev));
    if (takesFalse ? ev.truthy(value) : value !== undefined) return value;
    const chosen = fallback?.(ev);
    return chosen === undefined ? '' : chosen;
  };
}

function compileTest(
  c: CompileContext,
  packed: string,
  operand: Operand,
  args: readonly Expression[],
  at: number,
): Node {
  const negated = packed.startsWith(NEGATED_TEST_PREFIX);
  const name = packed.slice(negated ? NEGATED_TEST_PREFIX.length : TEST_PREFIX.length);
  const test = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
  if (test === undefined) {
    throw syntaxError(`there is no test '${name}'${didYouMean(name, Object.keys(TESTS))}`, at, { name });
  }
  const asksForPresence = name === 'defined' || name === 'undefined';
  const input = compileOperand(c, operand, asksForPresence);
  const call = bindCall(c, `the test '${name}'`, test, args, at);
  if (asksForPresence) return (ev) => call(ev, input(ev)) !== negated;
  return (ev) => call(ev, ev.open(input(ev))) !== negated;
}

function checkNamedArgument(filter: string, args: readonly Expression[], at: number): void {
  const isFilterName = NAMES_A_FILTER.has(filter);
  const named = args[isFilterName ? 0 : (NAMES_A_TEST.get(filter) ?? -1)];
  if (named?.type !== 'StringLiteral') return;
  const [table, kind] = isFilterName ? [FILTERS, 'filter'] : [TESTS, 'test'];
  if (Object.hasOwn(table, named.value)) return;
  const near = didYouMean(named.value, Object.keys(table));
  throw syntaxError(`there is no ${kind} '${named.value}'${near}`, at, { name: named.value });
}

type Bound = (ev: Evaluation, value: unknown) => unknown;

/** Binds the arguments at compilation, so that a wrong name or number of them is found without running. */
function bindCall(c: CompileContext, what: string, callable: Callable, args: readonly Expression[], at: number): Bound {
  const { positional, keywords } = compileArguments(c, args);
  const { apply } = callable;
  c.at = at;
  if (callable.variadic === true) {
    if (positional.length + keywords.length < (callable.required ?? 0)) {
      throw syntaxError(`${what} needs the argument '${callable.params[0]}'`, at);
    }
    return (ev, value) => {
      const values = evaluateAll(ev, positional);
      const named = evaluateKeywords(ev, keywords);
      ev.at = at;
      return apply(ev, value, values, named);
    };
  }
  const bound = bindArguments(what, callable, positional, keywords);
  while (bound.length > 0 && bound.at(-1) === undefined) bound.pop();
  if (bound.length === 0) {
    return (ev, value) => {
      ev.at = at;
      return apply(ev, value, NO_ARGUMENTS, NO_KEYWORDS);
    };
  }
  return (ev, value) => {
    const values = evaluateAll(ev, bound);
    ev.at = at;
    return apply(ev, value, values, NO_KEYWORDS);
  };
}

const NO_ARGUMENTS: readonly unknown[] = [];

function evaluateAll(ev: Evaluation, nodes: readonly (Node | undefined)[]): unknown[] {
  const values: unknown[] = [];
  for (const node of nodes) values.push(node === undefined ? undefined : ev.open(node(ev)));
  return values;
}

function evaluateKeywords(ev: Evaluation, keywords: Arguments['keywords']): Mapping {
  if (keywords.length === 0) return NO_KEYWORDS;
  const values: Record<string, unknown> = {};
  for (const [name, node] of keywords) setOwn(values, name, ev.open(node(ev)));
  return values;
}

function compileArguments(c: CompileContext, args: readonly Expression[]): Arguments {
  const positional: Node[] = [];
  const keywords: [string, Node][] = [];
  for (const arg of args) {
    if (arg.type !== 'KeywordArgumentExpression') {
      positional.push(compileExpression(c, arg));
      continue;
    }
    const { name } = unpackName(arg.key.value);
    if (keywords.some(([known]) => known === name)) throw syntaxError(`'${name}' is given twice`, c.locate(arg));
    keywords.push([name, compileExpression(c, arg.value)]);
  }
  return { positional, keywords };
}
