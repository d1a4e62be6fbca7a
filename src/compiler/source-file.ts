/** A place in a file; both count from 1, columns in UTF-16 units as editors do. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** At most this much of a line is shown on either side of the caret. */
const EXCERPT_SIDE = 60;
const HIDDEN = '***';
// Control and format characters could rewrite the terminal or turn the direction of the text around.
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Text of a playbook that can be shown: names and keys may hold anything. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, ' ');
}

/** A playbook's text with its lines. */
export class SourceFile {
  readonly file: string;
  readonly text: string;
  readonly #lineStarts: number[] = [0];

  constructor(file: string, text: string) {
    this.file = file;
    this.text = text;
    for (let i = text.indexOf('\n'); i !== -1; i = text.indexOf('\n', i + 1)) this.#lineStarts.push(i + 1);
  }

  position(offset: number): Position {
    const at = Math.max(0, Math.min(offset, this.text.length));
    let low = 0;
    let high = this.#lineStarts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#lineStarts[middle]! <= at) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: at - this.#lineStarts[low]! + 1 };
  }

  lineStart(line: number): number {
    return this.#lineStarts[line - 1] ?? this.text.length;
  }

  /** A line without its end. */
  line(line: number): string {
    const start = this.lineStart(line);
    const end = this.text.indexOf('\n', start);
    const text = this.text.slice(start, end === -1 ? undefined : end);
    return text.endsWith('\r') ? text.slice(0, -1) : text;
  }

  /** The line of an offset, cropped, harmless to print and without the given spans, with a caret below it. */
  excerpt(offset: number, hidden: readonly (readonly [from: number, to: number])[]): string {
    const { line, column } = this.position(offset);
    const start = this.lineStart(line);
    const whole = this.line(line);
    const from = Math.max(0, column - 1 - EXCERPT_SIDE);
    const to = Math.min(whole.length, column - 1 + EXCERPT_SIDE);
    const spans = hidden.filter(([a, b]) => a < start + to && b > start + from);
    let before = '';
    let after = '';
    const put = (at: number, text: string): void => {
      if (at < column - 1) before += text;
      else after += text;
    };
    for (let i = from; i < to; i++) {
      const span = spans.find(([a, b]) => a <= start + i && start + i < b);
      if (!span) {
        put(i, whole[i]!);
        continue;
      }
      put(i, HIDDEN);
      i = Math.min(to, span[1] - start) - 1;
    }
    const left = (from > 0 ? '…' : '') + printable(before);
    const right = printable(after) + (to < whole.length ? '…' : '');
    const margin = `${line} | `;
    return `${margin}${left}${right}\n${' '.repeat(margin.length + left.length)}^`;
  }
}
