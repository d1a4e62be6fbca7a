import { inputProblem } from '../outcomes.ts';

/** A parameter in the text: `$2` or `:name`. */
export interface Placeholder {
  readonly start: number;
  readonly end: number;
  /** The number or the name. */
  readonly key: number | string;
  /** Inside brackets and braces `:name` may be the end of a slice or the value of a key. */
  readonly inBrackets: boolean;
}

export interface Statement {
  readonly text: string;
  /** The first words, in lower case, without comments: what kind of statement it is. */
  readonly words: readonly string[];
  /** Holds `insert`, `update`, `delete` or `merge` somewhere outside of quotes and comments. */
  readonly mentionsWrite: boolean;
  readonly placeholders: readonly Placeholder[];
}

const SPACE = /\s/;
const WORD_START = /[A-Za-z_\u0080-\uffff]/;
const WORD_PART = /[A-Za-z0-9_$\u0080-\uffff]/;
const WRITES: ReadonlySet<string> = new Set(['insert', 'update', 'delete', 'merge']);
const MAX_WORDS = 6;
const MAX_STATEMENTS = 1000;

/**
 * Divides SQL at its semicolons, as psql does: quotes, dollar quotes, nested comments, parentheses and SQL-standard function
 * bodies hold semicolons of their own. Each part is later sent alone by a protocol that takes one statement only, so a text
 * that the server reads differently is refused by it and cannot bring a second statement along.
 */
export function splitStatements(text: string): Statement[] {
  const scanner = new Scanner(text);
  const statements = scanner.scan();
  if (statements.length > MAX_STATEMENTS) {
    throw inputProblem(`the text has more than ${MAX_STATEMENTS} statements; load data with the tool transfer`);
  }
  return statements;
}

class Scanner {
  readonly #text: string;
  readonly #statements: Statement[] = [];
  #at = 0;
  #start = 0;
  #words: string[] = [];
  #placeholders: Placeholder[] = [];
  #hasContent = false;
  #mentionsWrite = false;
  #parens = 0;
  #brackets = 0;
  #bodies = 0;

  constructor(text: string) {
    this.#text = text;
  }

  scan(): Statement[] {
    while (this.#at < this.#text.length) this.#step();
    this.#finish();
    return this.#statements;
  }

  #step(): void {
    const text = this.#text;
    const char = text[this.#at]!;
    if (SPACE.test(char)) this.#at += 1;
    else if (text.startsWith('--', this.#at)) this.#skipLine();
    else if (text.startsWith('/*', this.#at)) this.#skipComment();
    else if (char === ';' && this.#parens <= 0 && this.#bodies === 0) {
      this.#finish();
      this.#at += 1;
      this.#start = this.#at;
    } else {
      this.#hasContent = true;
      this.#token(char);
    }
  }

  #token(char: string): void {
    const text = this.#text;
    if (char === "'") this.#skipQuoted("'", false);
    else if (char === '"') this.#skipQuoted('"', false);
    else if (char === '$') this.#dollar();
    else if (char === ':') this.#colon();
    else if (WORD_START.test(char)) this.#word();
    else if (/[0-9]/.test(char)) {
      // `1e5`, `0x1f`, `1_000`: one token, so that its letters are no word.
      do this.#at += 1;
      while (this.#at < text.length && WORD_PART.test(text[this.#at]!));
    } else {
      if (char === '(') this.#parens += 1;
      else if (char === ')') this.#parens -= 1;
      else if (char === '[' || char === '{') this.#brackets += 1;
      else if (char === ']' || char === '}') this.#brackets -= 1;
      this.#at += 1;
    }
  }

  #word(): void {
    const text = this.#text;
    const start = this.#at;
    do this.#at += 1;
    while (this.#at < text.length && WORD_PART.test(text[this.#at]!));
    const word = text.slice(start, this.#at).toLowerCase();
    if (text[this.#at] === "'" && (word === 'e' || word === 'b' || word === 'x' || word === 'n')) {
      this.#skipQuoted("'", word === 'e');
      return;
    }
    if (this.#words.length < MAX_WORDS) this.#words.push(word);
    if (WRITES.has(word)) this.#mentionsWrite = true;
    this.#followBody(word);
  }

  /** `BEGIN ATOMIC ... END` of a function holds statements; CASE has an END of its own. */
  #followBody(word: string): void {
    if (this.#words[0] !== 'create' || this.#parens > 0) return;
    const rest = this.#words[1] === 'or' ? this.#words[3] : this.#words[1];
    if (rest !== 'function' && rest !== 'procedure') return;
    if (word === 'begin' || (word === 'case' && this.#bodies > 0)) this.#bodies += 1;
    else if (word === 'end' && this.#bodies > 0) this.#bodies -= 1;
  }

  #dollar(): void {
    const rest = this.#text.slice(this.#at, this.#at + 130);
    const number = /^\$(\d{1,5})(?![A-Za-z0-9_$])/.exec(rest);
    if (number) {
      this.#place(number[0].length, Number(number[1]));
      return;
    }
    const tag = /^\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$/.exec(rest)?.[0];
    if (tag === undefined) {
      this.#at += 1;
      return;
    }
    const end = this.#text.indexOf(tag, this.#at + tag.length);
    if (end < 0) throw inputProblem(`the SQL has a ${tag} that nothing closes`);
    this.#at = end + tag.length;
  }

  #colon(): void {
    if (this.#text[this.#at + 1] === ':') {
      this.#at += 2;
      return;
    }
    const name = /^:([A-Za-z_][A-Za-z0-9_]*)/.exec(this.#text.slice(this.#at, this.#at + 130));
    if (name) this.#place(name[0].length, name[1]!);
    else this.#at += 1;
  }

  #place(length: number, key: number | string): void {
    const start = this.#at - this.#start;
    this.#placeholders.push({ start, end: start + length, key, inBrackets: this.#brackets > 0 });
    this.#at += length;
  }

  #skipQuoted(quote: string, backslashes: boolean): void {
    const text = this.#text;
    for (let i = this.#at + 1; i < text.length; i++) {
      const char = text[i];
      if (char === '\\' && backslashes) i += 1;
      else if (char === quote) {
        if (text[i + 1] === quote) i += 1;
        else {
          this.#at = i + 1;
          return;
        }
      }
    }
    throw inputProblem(`the SQL has a ${quote} that nothing closes`);
  }

  #skipLine(): void {
    const end = this.#text.indexOf('\n', this.#at);
    this.#at = end < 0 ? this.#text.length : end + 1;
  }

  #skipComment(): void {
    const marks = /\/\*|\*\//g;
    marks.lastIndex = this.#at;
    let depth = 0;
    for (let mark = marks.exec(this.#text); mark; mark = marks.exec(this.#text)) {
      depth += mark[0] === '/*' ? 1 : -1;
      if (depth === 0) {
        this.#at = marks.lastIndex;
        return;
      }
    }
    throw inputProblem('the SQL has a comment that nothing closes');
  }

  #finish(): void {
    if (this.#hasContent) {
      const text = this.#text.slice(this.#start, this.#at);
      const [words, placeholders, mentionsWrite] = [this.#words, this.#placeholders, this.#mentionsWrite];
      this.#statements.push({ text, words, mentionsWrite, placeholders });
    }
    this.#words = [];
    this.#placeholders = [];
    this.#hasContent = false;
    this.#mentionsWrite = false;
    this.#parens = 0;
    this.#brackets = 0;
    this.#bodies = 0;
  }
}
