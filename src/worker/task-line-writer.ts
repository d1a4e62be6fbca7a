import type { NewTaskLine } from '../store/sql/task-lines.ts';
import type { LogLine } from './ports.ts';

export interface TaskLineSink {
  appendTaskLines(writer: string, lines: readonly NewTaskLine[]): Promise<void>;
}

const FLUSH_MS = 100;
const MAX_BATCH = 500;
const MAX_LINE = 8_000;
/** A task that prints without end must fill neither the memory nor the database. */
const MAX_WAITING = 20_000;
const MAX_PER_RUN = 50_000;
const MAX_RUNS = 1_000;

/**
 * Stores what tasks print, in the background and in order. No task waits for it, and when the database is away or slower than
 * the tasks, lines are left out: they are for people who look, not for proofs.
 */
export class TaskLineWriter {
  readonly #sink: TaskLineSink;
  readonly #writer: string;
  readonly #counts = new Map<string, number>();
  #waiting: NewTaskLine[] = [];
  #number = 0;
  #lastAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> | undefined;

  constructor(sink: TaskLineSink, writer: string) {
    this.#sink = sink;
    this.#writer = writer;
  }

  write({ runId, stepId, entity, logicalAttemptId: attempt, stream, line }: LogLine): void {
    const count = (this.#counts.get(runId) ?? 0) + 1;
    if (count === 1 && this.#counts.size >= MAX_RUNS) this.#counts.delete(this.#counts.keys().next().value as string);
    this.#counts.set(runId, count);
    if (count > MAX_PER_RUN || this.#waiting.length >= MAX_WAITING) return;
    // Never backwards: readers sort by time, and the order of one writer must survive that.
    this.#lastAt = Math.max(this.#lastAt, Date.now());
    this.#number += 1;
    this.#waiting.push({
      runId,
      lineNo: this.#number,
      printedAt: new Date(this.#lastAt).toISOString(),
      stepId,
      entity,
      attempt,
      stream,
      line: storable(count === MAX_PER_RUN ? `(more than ${MAX_PER_RUN} lines: the rest is left out)` : line),
    });
    this.#timer ??= setTimeout(() => void this.flush(), FLUSH_MS);
  }

  /** Stores what waits. One call at a time, since the numbers have to become visible in their order. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#flushing) await this.#flushing;
    this.#flushing = this.#store().finally(() => {
      this.#flushing = undefined;
    });
    await this.#flushing;
  }

  async #store(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, MAX_BATCH);
      this.#waiting = this.#waiting.slice(MAX_BATCH);
      try {
        await this.#sink.appendTaskLines(this.#writer, batch);
      } catch {
        // The step itself notices a database that is away; its lines are not worth a second complaint.
        this.#waiting = [];
      }
    }
  }
}

/** Postgres takes no zero bytes in text. */
function storable(line: string): string {
  const short = line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line;
  return short.replaceAll('\u0000', '\ufffd');
}
