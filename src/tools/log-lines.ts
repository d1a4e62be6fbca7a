import { StringDecoder } from 'node:string_decoder';
import type { CallContext } from './tool.ts';

interface LogLimits {
  /** Longer lines are cut. */
  readonly maxLineLength: number;
  readonly maxLines: number;
  readonly maxChars: number;
}

const LOG_LIMITS: LogLimits = { maxLineLength: 8192, maxLines: 10_000, maxChars: 2 * 1024 * 1024 };

/** What all streams of one call may still write to the log. A program in a loop must not fill the store. */
export class LogBudget {
  readonly #log: CallContext['log'];
  readonly #limits: LogLimits;
  #lines = 0;
  #chars = 0;
  #full = false;

  constructor(log: CallContext['log'], limits: LogLimits = LOG_LIMITS) {
    this.#log = log;
    this.#limits = limits;
  }

  get maxLineLength(): number {
    return this.#limits.maxLineLength;
  }

  line(stream: 'stdout' | 'stderr' | 'log', line: string): void {
    if (this.#full) return;
    const { maxLines, maxChars, maxLineLength } = this.#limits;
    this.#lines++;
    this.#chars += line.length;
    if (this.#lines > maxLines || this.#chars > maxChars) {
      this.#full = true;
      this.#log('log', `output beyond ${maxLines} lines or ${maxChars} characters is not logged`);
      return;
    }
    this.#log(stream, line.length > maxLineLength ? `${line.slice(0, maxLineLength)} [cut]` : line);
  }
}

/** Cuts a stream of bytes into lines of text, whatever the borders of its chunks. */
export class LineSplitter {
  readonly #stream: 'stdout' | 'stderr';
  readonly #budget: LogBudget;
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';
  #dropping = false;

  constructor(stream: 'stdout' | 'stderr', budget: LogBudget) {
    this.#stream = stream;
    this.#budget = budget;
  }

  write(chunk: Buffer): void {
    this.#take(this.#decoder.write(chunk));
  }

  end(): void {
    this.#take(this.#decoder.end());
    if (this.#rest !== '' && !this.#dropping) this.#emit(this.#rest);
    this.#rest = '';
  }

  #take(text: string): void {
    let from = 0;
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', from)) {
      if (!this.#dropping) this.#emit(this.#rest + text.slice(from, at));
      this.#rest = '';
      this.#dropping = false;
      from = at + 1;
    }
    if (this.#dropping) return;
    this.#rest += text.slice(from);
    // A line without an end must not be collected without one.
    if (this.#rest.length > this.#budget.maxLineLength) {
      this.#emit(this.#rest);
      this.#rest = '';
      this.#dropping = true;
    }
  }

  #emit(line: string): void {
    this.#budget.line(this.#stream, line.endsWith('\r') ? line.slice(0, -1) : line);
  }
}
