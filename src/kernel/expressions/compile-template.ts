import type { Expression } from './ast.ts';
import { CompileContext, type Node, type RootReference } from './compile-context.ts';
import { compileExpression } from './compile-expression.ts';
import { compileStatements, type Emit, Output } from './compile-statements.ts';
import { type EvalOptions, Evaluation, type Scope } from './evaluation.ts';
import { asAppError } from './failure.ts';
import { finishResult } from './finish-result.ts';
import { parseTemplate } from './parse-template.ts';
import { hasTemplate } from './scan-blocks.ts';

/** A template, compiled once and evaluated as often as needed. Evaluation is a function of the scope alone. */
export interface Template {
  readonly source: string;
  /** Text without any block; `evaluate` gives it back untouched. */
  readonly isStatic: boolean;
  /** Exactly one `{{ }}`, white space aside: the result keeps its type. Any other template gives text. */
  readonly isLone: boolean;
  /** Root names that it reads, each once. Loop variables, `set` names and functions are not among them. */
  readonly roots: readonly string[];
  /** Every reading of a root name, with its place in `source`. */
  readonly references: readonly RootReference[];
  /**
   * Throws AppError with a code TEMPLATE_* and `details {offset, line, column}`, or NeedValues if a stored value is used
   * that `options.resolve` does not have. The result is JSON or undefined, and may share structure with the scope.
   */
  evaluate(scope: Scope, options?: EvalOptions): unknown;
}

/** Compiles a template; throws AppError TEMPLATE_SYNTAX, TEMPLATE_FORBIDDEN or TEMPLATE_LIMIT with the place in `details`. */
export function compileTemplate(source: string): Template {
  if (!hasTemplate(source)) {
    return { source, isStatic: true, isLone: false, roots: [], references: [], evaluate: () => source };
  }
  const context = new CompileContext();
  try {
    const { body, isLone } = parseTemplate(source);
    const evaluate = isLone
      ? lone(source, context, compileExpression(context, body[0] as Expression))
      : text(source, context, compileStatements(context, body));
    const roots = [...new Set(context.references.map(({ name }) => name))];
    return { source, isStatic: false, isLone, roots, references: context.references, evaluate };
  } catch (thrown) {
    throw asAppError(thrown, source, context.at);
  }
}

function lone(source: string, { slots }: CompileContext, node: Node): Template['evaluate'] {
  return (scope, options) => {
    const evaluation = new Evaluation(scope, options, slots);
    try {
      return finishResult(evaluation, node(evaluation));
    } catch (thrown) {
      throw asAppError(thrown, source, evaluation.at);
    }
  };
}

function text(source: string, { slots }: CompileContext, emit: Emit): Template['evaluate'] {
  return (scope, options) => {
    const evaluation = new Evaluation(scope, options, slots);
    try {
      const out = new Output();
      emit(evaluation, out);
      return out.text;
    } catch (thrown) {
      throw asAppError(thrown, source, evaluation.at);
    }
  };
}
