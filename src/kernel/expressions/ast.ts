import type { Token } from './token.ts';

/**
 * The parser's tree as this folder reads it. The library does not export these types; only the fields that are used are
 * declared, and `jinja-corpus.json` would catch a change.
 */
export type Expression =
  | { readonly type: 'IntegerLiteral' | 'FloatLiteral'; readonly value: number }
  | { readonly type: 'StringLiteral'; readonly value: string }
  | { readonly type: 'ArrayLiteral' | 'TupleLiteral'; readonly value: readonly Expression[] }
  | { readonly type: 'ObjectLiteral'; readonly value: ReadonlyMap<Expression, Expression> }
  | Identifier
  | MemberExpression
  | CallExpression
  | { readonly type: 'FilterExpression'; readonly operand: Expression; readonly filter: Expression }
  | BinaryExpression
  | { readonly type: 'UnaryExpression'; readonly operator: Token; readonly argument: Expression }
  | {
      readonly type: 'Ternary';
      readonly condition: Expression;
      readonly trueExpr: Expression;
      readonly falseExpr: Expression;
    }
  | SelectExpression
  | SliceExpression
  | KeywordArgument
  | { readonly type: 'SpreadExpression' | 'KeywordSpreadExpression'; readonly argument: Expression }
  | { readonly type: 'TestExpression' };

export interface Identifier {
  readonly type: 'Identifier';
  readonly value: string;
}

export interface MemberExpression {
  readonly type: 'MemberExpression';
  readonly object: Expression;
  readonly property: Expression;
  readonly computed: boolean;
}

export interface CallExpression {
  readonly type: 'CallExpression';
  readonly callee: Expression;
  readonly args: readonly Expression[];
}

export interface BinaryExpression {
  readonly type: 'BinaryExpression';
  readonly operator: Token;
  readonly left: Expression;
  readonly right: Expression;
}

/** `a if b` without `else`; in a `for` statement the condition that an item must meet. */
interface SelectExpression {
  readonly type: 'SelectExpression';
  readonly lhs: Expression;
  readonly test: Expression;
}

export interface SliceExpression {
  readonly type: 'SliceExpression';
  readonly start: Expression | undefined;
  readonly stop: Expression | undefined;
  readonly step: Expression | undefined;
}

interface KeywordArgument {
  readonly type: 'KeywordArgumentExpression';
  readonly key: Identifier;
  readonly value: Expression;
}

export type Statement =
  | Expression
  | {
      readonly type: 'If';
      readonly test: Expression;
      readonly body: readonly Statement[];
      readonly alternate: readonly Statement[];
    }
  | ForStatement
  | {
      readonly type: 'Set';
      readonly assignee: Expression;
      readonly value: Expression | null;
      readonly body: readonly Statement[];
    }
  | MacroStatement
  | { readonly type: 'FilterStatement'; readonly filter: Expression; readonly body: readonly Statement[] }
  | { readonly type: 'Break' | 'Continue' };

export interface ForStatement {
  readonly type: 'For';
  readonly loopvar: Expression;
  readonly iterable: Expression;
  readonly body: readonly Statement[];
  readonly defaultBlock: readonly Statement[];
}

export interface MacroStatement {
  readonly type: 'Macro';
  readonly name: Identifier;
  readonly args: readonly Expression[];
  readonly body: readonly Statement[];
}
