import { Lexer } from 'yaml';

/** A bracket or a quote that is opened and not closed. */
export interface Unclosed {
  readonly offset: number;
  readonly opener: string;
  readonly closer: string;
  /** Where it shows at the latest that something is missing, and what stands there if it closes something else. */
  readonly noticed: number;
  readonly instead?: string;
}

const CLOSERS: Readonly<Record<string, string>> = { '{': '}', '[': ']', '"': '"', "'": "'" };
/** Signs of the lexer that stand for no character of the text: a document begins, a scalar follows, a bracket was given up. */
const DOCUMENT = '\u0002';
const SCALAR = '\u001f';
const GIVEN_UP = '\u0018';

/**
 * The first opening without its end. A parser notices it only where something no longer fits, a line later or at the end of the
 * file; who has to mend it looks for where it was opened.
 */
export function findUnclosed(text: string): Unclosed | undefined {
  const open: { readonly opener: string; readonly offset: number }[] = [];
  let offset = 0;
  let isScalar = false;
  const unclosed = (noticed: number, instead?: string): Unclosed => {
    const { opener, offset: at } = open.at(-1)!;
    const found = instead === undefined ? {} : { instead };
    return { offset: at, opener, closer: CLOSERS[opener]!, noticed, ...found };
  };
  for (const lexeme of new Lexer().lex(text)) {
    if (lexeme === DOCUMENT) continue;
    if (lexeme === SCALAR && !isScalar) {
      isScalar = true;
      continue;
    }
    if (lexeme === GIVEN_UP) {
      if (open.length > 0) return unclosed(offset);
      continue;
    }
    const sign = lexeme[0]!;
    if (isScalar) isScalar = false;
    else if ((sign === '"' || sign === "'") && !isClosed(lexeme)) {
      return { offset, opener: sign, closer: sign, noticed: offset + lexeme.length };
    } else if (lexeme === '{' || lexeme === '[') open.push({ opener: lexeme, offset });
    else if ((lexeme === '}' || lexeme === ']') && open.length > 0) {
      if (CLOSERS[open.at(-1)!.opener] !== lexeme) return unclosed(offset, lexeme);
      open.pop();
    }
    offset += lexeme.length;
  }
  return open.length > 0 ? unclosed(offset) : undefined;
}

/** In double quotes a backslash before the last one takes its meaning away, in single quotes another quote does. */
function isClosed(quoted: string): boolean {
  const quote = quoted[0]!;
  if (quoted.length < 2 || !quoted.endsWith(quote)) return false;
  const sign = quote === '"' ? '\\' : quote;
  let before = 0;
  while (before < quoted.length - 2 && quoted[quoted.length - 2 - before] === sign) before++;
  return before % 2 === 0;
}
