import type { Statement } from './ast.ts';
import { limitError, syntaxError } from './failure.ts';
import { parse } from './grammar.ts';
import { type Part, scanBlocks } from './scan-blocks.ts';
import { templateTokens } from './template-tokens.ts';
import { describeToken, type Token } from './token.ts';

export interface ParsedTemplate {
  readonly body: readonly Statement[];
  /** Exactly one `{{ }}` with nothing but white space and comments around it. */
  readonly isLone: boolean;
}

export function parseTemplate(source: string): ParsedTemplate {
  let parts: readonly Part[] = scanBlocks(source);
  const visible = parts.filter((part) => part.kind !== 'text' || part.text.trim() !== '');
  const isLone = visible.length === 1 && visible[0]?.kind === 'expression';
  if (isLone) parts = visible;
  const tokens = templateTokens(source, parts);
  try {
    return { body: parse(tokens).body, isLone };
  } catch (error) {
    if (error instanceof RangeError) throw limitError('this template is nested too deeply', 0);
    throw parseProblem(tokens, source.length);
  }
}

/**
 * Says where the parser stopped. It does not tell, so it runs once more over tokens that remember which one was read last;
 * whatever it throws (at the end of its tokens a plain TypeError), that token is the unexpected one.
 */
function parseProblem(tokens: readonly Token[], end: number): Error {
  let last = 0;
  const watched = new Proxy([...tokens], {
    get(target, key, receiver) {
      if (typeof key === 'string' && /^\d+$/.test(key)) last = Number(key);
      return Reflect.get(target, key, receiver);
    },
  });
  let reason = '';
  try {
    parse(watched);
  } catch (error) {
    if (error instanceof SyntaxError && !/^Unexpected token|^Expected (?:identifier|`in`)/.test(error.message)) {
      reason = `; ${error.message}`;
    }
  }
  const token = tokens[last];
  if (token === undefined) return syntaxError('the template ends too early', end);
  return syntaxError(
    `unexpected ${describeToken(token).replace(/^the /, '')}${reason.replace(/\0\d+/g, '')}`,
    token.offset,
  );
}
