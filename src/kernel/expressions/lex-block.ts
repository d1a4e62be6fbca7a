import { limitError, syntaxError } from './failure.ts';
import { tokenize } from './grammar.ts';
import type { BlockPart } from './scan-blocks.ts';
import { closesGroup, describeToken, isKeyword, opensGroup, type Token } from './token.ts';

/** Brackets inside each other and prefix operators in one block: the parser recurses on each of them. */
const MAX_NESTING = 100;
const MAX_BLOCK_LENGTH = 65_536;
const NUMBER = /[+-]?\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d[\d_]*)?/y;
const DELIMITER = /^(?:Text|Comment|(?:Open|Close)(?:Statement|Expression))$/;

/** Runs the lexer on one block and gives every token its place and its real text. */
export function lexBlock(source: string, part: BlockPart): Token[] {
  if (part.code.length > MAX_BLOCK_LENGTH) throw limitError('this block is too long', part.start);
  const lexed = runLexer(part);
  const tokens: Token[] = [];
  let cursor = 0;
  let covered = 0;
  let nextString = 0;
  for (const { type, value } of lexed) {
    while (part.code[cursor] === ' ') cursor++;
    const from = cursor;
    const offset = part.positions[from] ?? part.start;
    cursor += type === 'StringLiteral' ? 2 : value.length;
    if (from < covered) continue;
    if (type === 'StringLiteral') {
      tokens.push({ type, offset, value: part.strings[nextString++] ?? '' });
    } else if (type === 'Identifier') {
      tokens.push({ type, offset, value: source.slice(offset, offset + value.length) });
    } else if (type === 'NumericLiteral' && tokens.at(-1)?.type !== 'Dot') {
      // The lexer stops at `1` in `1e5` and `1_000`; what follows belongs to the number.
      NUMBER.lastIndex = from;
      const whole = NUMBER.exec(part.code)?.[0] ?? value;
      covered = from + whole.length;
      tokens.push({ type, offset, value: whole.replaceAll('_', '') });
    } else {
      tokens.push({ type, offset, value });
    }
  }
  if (tokens.length < 3) throw syntaxError('this block is empty', part.start);
  refuseDeepNesting(tokens);
  refuseMissingOperators(tokens, part.kind === 'statement' ? 2 : 1);
  return tokens;
}

function runLexer(part: BlockPart): ReturnType<typeof tokenize> {
  const side = part.kind === 'statement' ? 'Statement' : 'Expression';
  let lexed: ReturnType<typeof tokenize>;
  try {
    lexed = tokenize(part.code);
  } catch (error) {
    const reason = error instanceof SyntaxError ? `: ${error.message}` : '';
    throw syntaxError(`this block cannot be read${reason}`, part.start);
  }
  // Where the lexer ends a block elsewhere than we do, the brackets inside it do not match.
  const complete =
    lexed.length >= 2 &&
    lexed[0]?.type === `Open${side}` &&
    lexed.at(-1)?.type === `Close${side}` &&
    !lexed.slice(1, -1).some((token) => DELIMITER.test(token.type));
  if (!complete) throw syntaxError('this block cannot be read; check its brackets and its end', part.start);
  return lexed;
}

function refuseDeepNesting(tokens: readonly Token[]): void {
  let depth = 0;
  let prefixes = 0;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!;
    if (opensGroup(token)) depth++;
    else if (closesGroup(token)) depth--;
    else if (token.type === 'UnaryOperator' || isKeyword(token, 'not') || isKeyword(token, 'else')) prefixes++;
    else if (token.type === 'AdditiveBinaryOperator' && !endsOperand(tokens, i - 1)) prefixes++;
    if (depth > MAX_NESTING || prefixes > MAX_NESTING) {
      throw limitError('this expression is nested too deeply', token.offset);
    }
  }
}

/** The parser takes `[1 2]` and `f(a b)` for lists with a comma; Jinja does not, and it hides typing errors. */
function refuseMissingOperators(tokens: readonly Token[], first: number): void {
  for (let i = first; i < tokens.length - 1; i++) {
    const token = tokens[i]!;
    const next = tokens[i + 1]!;
    const startsOperand =
      next.type === 'NumericLiteral' ||
      next.type === 'StringLiteral' ||
      next.type === 'OpenCurlyBracket' ||
      (next.type === 'Identifier' && !isKeyword(next));
    // `a | list[0]`: a filter's name takes no subscript, and the parser would start the next item of a list there.
    const followsFilter = next.type === 'OpenSquareBracket' && tokens[i - 1]?.type === 'Pipe';
    if (!followsFilter && (!startsOperand || !endsOperand(tokens, i))) continue;
    if (token.type === 'StringLiteral' && next.type === 'StringLiteral') continue;
    throw syntaxError(
      `unexpected ${describeToken(next).replace(/^the /, '')} after ${describeToken(token)}; an operator or a comma is missing`,
      next.offset,
    );
  }
}

function endsOperand(tokens: readonly Token[], index: number): boolean {
  const token = tokens[index];
  if (token === undefined) return false;
  if (token.type === 'NumericLiteral' || token.type === 'StringLiteral' || closesGroup(token)) return true;
  if (token.type !== 'Identifier') return false;
  const before = tokens[index - 1];
  if (before?.type === 'Dot') return true;
  // After `is divisibleby` and `is not in` comes an argument, which needs no brackets.
  const isTest = isKeyword(before, 'is') || (isKeyword(before, 'not') && isKeyword(tokens[index - 2], 'is'));
  return !isTest && !isKeyword(token);
}
