/** The library's names of tokens. */
type TokenType =
  | 'Text'
  | 'NumericLiteral'
  | 'StringLiteral'
  | 'Identifier'
  | 'Equals'
  | 'OpenParen'
  | 'CloseParen'
  | 'OpenStatement'
  | 'CloseStatement'
  | 'OpenExpression'
  | 'CloseExpression'
  | 'OpenSquareBracket'
  | 'CloseSquareBracket'
  | 'OpenCurlyBracket'
  | 'CloseCurlyBracket'
  | 'Comma'
  | 'Dot'
  | 'Colon'
  | 'Pipe'
  | 'AdditiveBinaryOperator'
  | 'MultiplicativeBinaryOperator'
  | 'ExponentiationBinaryOperator'
  | 'ComparisonBinaryOperator'
  | 'UnaryOperator'
  | 'Comment';

/** A token with its place. The parser keeps operator tokens in its tree, so their places and groups arrive there too. */
export interface Token {
  readonly type: TokenType;
  readonly value: string;
  readonly offset: number;
  /** The innermost open bracket around it, to tell `a < b < c` from `(a < b) < c`. */
  readonly group?: number;
}

const KEYWORDS: ReadonlySet<string> = new Set(['and', 'or', 'not', 'in', 'is', 'if', 'else']);
const OPEN: ReadonlySet<TokenType> = new Set(['OpenParen', 'OpenSquareBracket', 'OpenCurlyBracket']);
const CLOSE: ReadonlySet<TokenType> = new Set(['CloseParen', 'CloseSquareBracket', 'CloseCurlyBracket']);

export function isKeyword(token: Token | undefined, word?: string): boolean {
  if (token?.type !== 'Identifier') return false;
  return word === undefined ? KEYWORDS.has(token.value) : token.value === word;
}

export function opensGroup(token: Token | undefined): boolean {
  return token !== undefined && OPEN.has(token.type);
}

export function closesGroup(token: Token | undefined): boolean {
  return token !== undefined && CLOSE.has(token.type);
}

/** The parser passes identifiers on as text only, so their offset travels inside that text. */
export function packName(name: string, offset: number): string {
  return `${name}\0${offset}`;
}

export function unpackName(packed: string): { name: string; offset: number | undefined } {
  const cut = packed.indexOf('\0');
  return cut === -1
    ? { name: packed, offset: undefined }
    : { name: packed.slice(0, cut), offset: Number(packed.slice(cut + 1)) };
}

export function describeToken(token: Token): string {
  switch (token.type) {
    case 'StringLiteral':
      return 'a string';
    case 'CloseExpression':
    case 'CloseStatement':
      return `the end of the block (\`${token.value}\`)`;
    case 'Text':
      return 'text';
    default:
      return `'${unpackName(token.value).name}'`;
  }
}
