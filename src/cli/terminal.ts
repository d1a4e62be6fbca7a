import { stripVTControlCharacters } from 'node:util';
import { type TerminalHints, terminalHints } from '../runtime/config.ts';

const COLORS = { red: 31, green: 32, yellow: 33, blue: 34, cyan: 36, dim: 2, bold: 1 } as const;
export type Color = keyof typeof COLORS;

const UNICODE = {
  done: '✓',
  failed: '✗',
  running: '●',
  waiting: '○',
  skipped: '–',
  into: '›',
  more: '…',
  bar: '█',
  rest: '░',
};
const ASCII: typeof UNICODE = {
  done: '+',
  failed: 'x',
  running: '*',
  waiting: '.',
  skipped: '-',
  into: '>',
  more: '..',
  bar: '#',
  rest: '.',
};

/** Where a command prints, and what the place can show. */
export class Terminal {
  readonly json: boolean;
  readonly verbose: boolean;
  readonly hints: TerminalHints;
  readonly symbols: typeof UNICODE;
  readonly #errorColor: boolean;

  constructor(options: { json: boolean; verbose: boolean }) {
    this.json = options.json;
    this.verbose = options.verbose;
    this.hints = terminalHints(process.stdout.isTTY ?? false);
    this.#errorColor = terminalHints(process.stderr.isTTY ?? false).color;
    this.symbols = this.hints.unicode ? UNICODE : ASCII;
  }

  /** What the command was asked for. */
  print(text: string): void {
    process.stdout.write(`${text}\n`);
  }

  printJson(value: unknown): void {
    this.print(JSON.stringify(value, null, 2));
  }

  /** What a person should know beside the answer. */
  note(text: string): void {
    process.stderr.write(`${text}\n`);
  }

  /** Raw text for a display that moves the cursor. */
  write(text: string): void {
    process.stdout.write(text);
  }

  get columns(): number {
    return Math.max(20, process.stdout.columns ?? 80);
  }

  get rows(): number {
    return Math.max(5, process.stdout.rows ?? 24);
  }

  onResize(callback: () => void): () => void {
    process.stdout.on('resize', callback);
    return () => process.stdout.off('resize', callback);
  }

  /** Lines that break between words, where a person looks at them; a pipe gets one. */
  wrap(text: string): string[] {
    return process.stdout.isTTY ? wrapped(text, this.columns - 1) : [text];
  }

  /** The same for what is noted. */
  wrapNote(text: string): string {
    if (!process.stderr.isTTY) return text;
    return wrapped(text, Math.max(20, process.stderr.columns ?? 80) - 1).join('\n');
  }

  paint(color: Color, text: string): string {
    return this.hints.color ? paint(color, text) : text;
  }

  paintError(color: Color, text: string): string {
    return this.#errorColor ? paint(color, text) : text;
  }

  get errorColor(): boolean {
    return this.#errorColor;
  }
}

function paint(color: Color, text: string): string {
  return `\u001b[${COLORS[color]}m${text}\u001b[0m`;
}

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
const COMBINING = /^(?:\p{Mn}|\p{Me}|\u200d|\ufe0f)$/u;

/** How many columns a text takes. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const point of stripVTControlCharacters(text)) width += COMBINING.test(point) ? 0 : WIDE.test(point) ? 2 : 1;
  return width;
}

/** The beginning of a text without colours that fits. */
export function crop(text: string, width: number, more = '…'): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  let used = more.length;
  for (const point of text) {
    const next = displayWidth(point);
    if (used + next > width) break;
    kept += point;
    used += next;
  }
  return `${kept}${more}`;
}

/** Lines of at most so many columns; a word that is longer has a line to itself, for the terminal to break. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && displayWidth(longer) > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, line];
}

export function pad(text: string, width: number): string {
  return `${text}${' '.repeat(Math.max(0, width - displayWidth(text)))}`;
}

/** Names and messages come from playbooks and servers: one line, nothing that moves the cursor. */
export function clean(text: string, limit = 500): string {
  const line = stripVTControlCharacters(text.slice(0, limit * 2))
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ')
    .trimEnd();
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
}

export function duration(millis: number): string {
  if (millis < 1000) return `${Math.round(millis)} ms`;
  if (millis < 60_000) return `${(millis / 1000).toFixed(1)} s`;
  const seconds = Math.floor(millis / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${seconds % 60} s`;
}

/** Rows of cells with their columns aligned; the last column, which has no colours, is cropped to the room that is left. */
export function table(rows: readonly (readonly string[])[], columns: number): string[] {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, displayWidth(cell));
    });
  const room = columns - widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0);
  return rows.map((row) =>
    row
      .map((cell, i) => (i < row.length - 1 ? pad(cell, widths[i]!) : room > 0 ? crop(cell, room) : ''))
      .join('  ')
      .trimEnd(),
  );
}
