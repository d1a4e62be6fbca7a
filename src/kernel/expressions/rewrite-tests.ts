import { syntaxError } from './failure.ts';
import { closesGroup, isKeyword, opensGroup, packName, type Token } from './token.ts';

/** How a test appears in the tree: a filter whose name begins so. No filter of an author can, because of the space. */
export const TEST_PREFIX = 'is ';
export const NEGATED_TEST_PREFIX = 'is not ';

/**
 * Turns `x is divisibleby 3` into the filter call `x | is divisibleby(3)` and `not in` into one operator. In Jinja's grammar
 * tests and filters stand on the same level and tests take arguments; the parser knows neither.
 */
export function rewriteTests(tokens: readonly Token[]): Token[] {
  const out: Token[] = [];
  const closeAfter = new Map<number, number>();
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!;
    const afterDot = tokens[i - 1]?.type === 'Dot';
    if (isKeyword(token, 'is') && !afterDot) {
      const negated = isKeyword(tokens[i + 1], 'not');
      const nameIndex = negated ? i + 2 : i + 1;
      const name = tokens[nameIndex];
      if (name?.type !== 'Identifier') throw syntaxError('after `is` the name of a test is missing', token.offset);
      const prefix = negated ? NEGATED_TEST_PREFIX : TEST_PREFIX;
      out.push({ type: 'Pipe', value: '|', offset: token.offset });
      out.push({ type: 'Identifier', value: packName(prefix + name.value, name.offset), offset: name.offset });
      i = nameIndex;
      const argument = tokens[i + 1];
      if (argument !== undefined && startsArgument(argument)) {
        out.push({ type: 'OpenParen', value: '(', offset: argument.offset });
        const end = endOfArgument(tokens, i + 1);
        closeAfter.set(end, (closeAfter.get(end) ?? 0) + 1);
      } else {
        closeGroups(out, closeAfter, nameIndex, name.offset);
      }
      continue;
    }
    if (isKeyword(token, 'not') && isKeyword(tokens[i + 1], 'in') && !afterDot) {
      out.push({ type: 'ComparisonBinaryOperator', value: 'not in', offset: token.offset });
      i++;
      continue;
    }
    out.push(token);
    closeGroups(out, closeAfter, i, token.offset);
  }
  return out;
}

function closeGroups(out: Token[], closeAfter: ReadonlyMap<number, number>, index: number, offset: number): void {
  for (let n = closeAfter.get(index) ?? 0; n > 0; n--) out.push({ type: 'CloseParen', value: ')', offset });
}

function startsArgument(token: Token): boolean {
  return (
    token.type === 'NumericLiteral' ||
    token.type === 'StringLiteral' ||
    token.type === 'OpenSquareBracket' ||
    token.type === 'OpenCurlyBracket' ||
    (token.type === 'Identifier' && !isKeyword(token))
  );
}

/** Index of the last token of the operand at `start` with its attributes, subscripts and calls. */
function endOfArgument(tokens: readonly Token[], start: number): number {
  let end = opensGroup(tokens[start]) ? endOfGroup(tokens, start) : start;
  while (tokens[start]?.type === 'StringLiteral' && tokens[end + 1]?.type === 'StringLiteral') end++;
  for (;;) {
    const next = tokens[end + 1];
    if (next?.type === 'Dot') end += 2;
    else if (next?.type === 'OpenSquareBracket' || next?.type === 'OpenParen') end = endOfGroup(tokens, end + 1);
    else return Math.min(end, tokens.length - 2);
  }
}

function endOfGroup(tokens: readonly Token[], start: number): number {
  let depth = 0;
  for (let i = start; i < tokens.length; i++) {
    if (opensGroup(tokens[i])) depth++;
    else if (closesGroup(tokens[i])) depth--;
    if (depth === 0) return i;
  }
  throw syntaxError('this bracket is never closed', tokens[start]!.offset);
}
