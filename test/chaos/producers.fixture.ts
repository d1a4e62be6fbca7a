import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunEventWrite } from '../../src/contracts/envelope.ts';
import { AppError } from '../../src/contracts/errors.ts';
import type { PostgresStore } from '../../src/store/postgres-store.ts';
import type { AppendResult, NewRun } from '../../src/store/store.ts';
import { runStarted, sampleEvent, sampleRun } from '../../src/testing/sample-events.ts';
import type { Said } from './said.fixture.ts';

const MAX_RUNS = 12;

/** Producers that append single events, batches and new runs through one store until they are told to stop. */
export class Producers {
  readonly #store: PostgresStore;
  readonly #random: () => number;
  readonly #say: (said: Said) => void;
  readonly #runs: NewRun[] = [];
  #counter = 0;
  #stopped = false;

  constructor(store: PostgresStore, random: () => number, say: (said: Said) => void) {
    this.#store = store;
    this.#random = random;
    this.#say = say;
  }

  /** Ends when `stop` was called and every call under way was answered. */
  async run(concurrency: number): Promise<void> {
    await this.#createRun();
    await Promise.all(
      Array.from({ length: concurrency }, async () => {
        while (!this.#stopped) {
          await this.#act();
          // What matters is the moments between calls, not their number.
          await sleep(this.#random() * 8);
        }
      }),
    );
  }

  stop(): void {
    this.#stopped = true;
  }

  async #act(): Promise<void> {
    const dice = this.#random();
    try {
      if (dice < 0.06 && this.#runs.length < MAX_RUNS) await this.#createRun();
      else if (dice < 0.6) await this.#append(1);
      else await this.#append(2 + Math.floor(this.#random() * 12));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      this.#say({ kind: 'refused', code: error.code, message: error.message });
    }
  }

  async #createRun(): Promise<void> {
    const run = sampleRun(randomUUID());
    const events = [...(run.events ?? []), runStarted(run)];
    await this.#store.createRun({ ...run, events });
    this.#say({ kind: 'created', runId: run.runId });
    this.#runs.push(run);
  }

  async #append(count: number): Promise<void> {
    const run = this.#runs[Math.floor(this.#random() * this.#runs.length)] as NewRun;
    const events = Array.from({ length: count }, () => this.#task(run));
    this.#say({ kind: 'try', runId: run.runId, keys: events.map((event) => event.idempotencyKey) });
    const result = await this.#store.append(events, { as: 'worker' });
    this.#acknowledge(run, events, result);
  }

  #acknowledge(run: NewRun, events: readonly RunEventWrite[], result: AppendResult): void {
    if (!result.ok) throw result.error;
    const stored = result.receipts.map(({ eventId, runSeq, persistedAt }, i) => ({
      runId: run.runId,
      key: (events[i] as RunEventWrite).idempotencyKey,
      eventId,
      runSeq,
      persistedAt,
    }));
    this.#say({ kind: 'stored', events: stored });
  }

  #task(run: NewRun): RunEventWrite {
    this.#counter += 1;
    const value = 'x'.repeat(Math.floor(this.#random() * 300));
    const entity = `a/get:${this.#counter}`;
    return sampleEvent(run, {
      eventType: 'TaskDone',
      stepId: 'a',
      entity,
      payload: { attempts: 1, result: { value } },
    });
  }
}
