import { forbidden, limitError, syntaxError } from './failure.ts';

/** Text between blocks, already trimmed as `{{-` and `-}}` demand. */
interface TextPart {
  readonly kind: 'text';
  readonly text: string;
}

/**
 * One `{{ }}` or `{% %}`. `code` is what the lexer gets: delimiters without their `-`, each string literal replaced by
 * `""`, each run of white space by one space, letters outside ASCII by `x`. `positions[i]` is the offset in the source
 * of `code[i]`, and `strings` are the literals' values in order.
 */
export interface BlockPart {
  readonly kind: 'expression' | 'statement';
  readonly start: number;
  readonly end: number;
  readonly code: string;
  readonly positions: readonly number[];
  readonly strings: readonly string[];
}

export type Part = TextPart | BlockPart;

/** A template longer than this is data that belongs in a file or a task. */
export const MAX_SOURCE_LENGTH = 1_048_576;

const OPENER = /\{[{%#]/g;
const RAW = /\{%[-+]?\s*raw\s*([-+]?)%\}/y;
const END_RAW = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/g;
const NAME_CHAR = /[\p{ID_Continue}]/u;
const REFUSED_STATEMENTS: Readonly<Record<string, string>> = {
  include: 'a template cannot load other templates',
  import: 'a template cannot load other templates',
  from: 'a template cannot load other templates',
  extends: 'a template cannot load other templates',
  block: 'a template has no parent whose block it could fill',
  call: 'use a macro with arguments instead of a call block',
  do: 'templates read values and cannot change them',
  autoescape: 'templates are not HTML; use the filter `escape` on a value',
  trans: 'templates are not translated',
};

export function hasTemplate(source: string): boolean {
  OPENER.lastIndex = 0;
  return OPENER.test(source);
}

/**
 * Splits a template into text and blocks. This is no grammar: it knows where strings, braces and comments end, so that
 * the lexer gets one clean block at a time and every token can be traced to its place.
 */
export function scanBlocks(source: string): Part[] {
  if (source.length > MAX_SOURCE_LENGTH) {
    throw limitError(`a template may have ${MAX_SOURCE_LENGTH} characters; this one has ${source.length}`, 0);
  }
  // Jinja drops one newline at the end of a template.
  const end = source.endsWith('\n') ? source.length - 1 : source.length;
  const parts: Part[] = [];
  let position = 0;
  let trimNext = false;
  const text = (from: number, to: number, trimEnd: boolean) => {
    let value = source.slice(from, to);
    if (trimNext) value = value.trimStart();
    if (trimEnd) value = value.trimEnd();
    trimNext = false;
    if (value !== '') parts.push({ kind: 'text', text: value });
  };
  while (position < end) {
    OPENER.lastIndex = position;
    const opener = OPENER.exec(source);
    if (opener === null || opener.index >= end) {
      text(position, end, false);
      break;
    }
    const start = opener.index;
    text(position, start, source[start + 2] === '-');
    if (opener[0] === '{#') {
      const close = source.indexOf('#}', start + 2);
      if (close === -1) throw syntaxError('this comment is never closed; write `#}`', start);
      trimNext = source[close - 1] === '-' && close - 1 > start + 1;
      position = close + 2;
      continue;
    }
    RAW.lastIndex = start;
    const raw = opener[0] === '{%' ? RAW.exec(source) : null;
    if (raw !== null) {
      END_RAW.lastIndex = start + raw[0].length;
      const close = END_RAW.exec(source);
      if (close === null) throw syntaxError('`{% raw %}` is never closed; write `{% endraw %}`', start);
      trimNext = raw[1] === '-';
      text(start + raw[0].length, close.index, close[1] === '-');
      trimNext = close[2] === '-';
      position = close.index + close[0].length;
      continue;
    }
    const block = scanBlock(source, start, opener[0] === '{{' ? 'expression' : 'statement');
    if (block.part.kind === 'statement') refuseStatement(block.part);
    parts.push(block.part);
    trimNext = block.trim;
    position = block.part.end;
  }
  return parts;
}

function refuseStatement(part: BlockPart): void {
  const name = /^\{% ?(\w+)/.exec(part.code)?.[1];
  if (name === undefined || !Object.hasOwn(REFUSED_STATEMENTS, name)) return;
  throw forbidden(`\`{% ${name} %}\` is not allowed: ${REFUSED_STATEMENTS[name]}`, part.start);
}

function scanBlock(source: string, start: number, kind: BlockPart['kind']): { part: BlockPart; trim: boolean } {
  const closer = kind === 'expression' ? '}}' : '%}';
  let code = kind === 'expression' ? '{{' : '{%';
  const positions = [start, start + 1];
  const strings: string[] = [];
  let depth = 0;
  let i = start + 2;
  if (source[i] === '-' || source[i] === '+') {
    // `{%+` switches off an option that is off here; `{{+` is a unary plus.
    if (source[i] === '-' || kind === 'statement') i++;
  }
  while (i < source.length) {
    const char = source[i]!;
    if (depth === 0 && closes(source, i, closer)) {
      const trim = char === '-';
      const at = trim || char === '+' ? i + 1 : i;
      positions.push(at, at + 1);
      return { part: { kind, start, end: at + 2, code: code + closer, positions, strings }, trim };
    }
    if (char === '"' || char === "'") {
      const close = endOfString(source, i, char);
      if (close === -1) throw syntaxError('this string is never closed', i);
      strings.push(unescapeString(source.slice(i + 1, close)));
      positions.push(i, close);
      code += '""';
      i = close + 1;
      continue;
    }
    if (isSpace(char)) {
      positions.push(i);
      code += ' ';
      while (i < source.length && isSpace(source[i]!)) i++;
      continue;
    }
    if (char === '{') depth++;
    else if (char === '}') depth = Math.max(0, depth - 1);
    else if (char > '\x7f') {
      if (!NAME_CHAR.test(char)) throw syntaxError(`unexpected character '${char}'`, i);
      code += 'x';
      positions.push(i++);
      continue;
    }
    code += char;
    positions.push(i++);
  }
  throw syntaxError(`\`${kind === 'expression' ? '{{' : '{%'}\` is never closed; write \`${closer}\``, start);
}

function closes(source: string, i: number, closer: string): boolean {
  if (source.startsWith(closer, i)) return true;
  const sign = source[i];
  return (sign === '-' || (sign === '+' && closer === '%}')) && source.startsWith(closer, i + 1);
}

function isSpace(char: string): boolean {
  return (
    char === ' ' || char === '\n' || char === '\t' || char === '\r' || char === '\f' || char === '\v' || char === '\xa0'
  );
}

function endOfString(source: string, start: number, quote: string): number {
  for (let i = start + 1; i < source.length; i++) {
    const char = source[i];
    if (char === '\\') i++;
    else if (char === quote) return i;
  }
  return -1;
}

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\x07',
  "'": "'",
  '"': '"',
  '\\': '\\',
  '\n': '',
};

/** Python's rule: an escape that means nothing stays as it is, so that `'\d+'` is a pattern. */
function unescapeString(raw: string): string {
  if (!raw.includes('\\')) return raw;
  return raw.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(00[01][0-9a-fA-F]{5})|([\s\S]))/g,
    (whole: string, x?: string, u?: string, long?: string, char?: string) => {
      if (char !== undefined) return Object.hasOwn(ESCAPES, char) ? ESCAPES[char]! : whole;
      const code = Number.parseInt(x ?? u ?? long ?? '', 16);
      return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    },
  );
}
