import { AppError } from '../contracts/errors.ts';
import type { EventDraft } from '../kernel/commands.ts';
import type { UnitHost } from './unit-host.ts';

/** The events of a unit that are not recorded yet. They are stored in their order, with the next boundary or before an effect. */
export class FactBuffer {
  readonly #host: Pick<UnitHost, 'record'>;
  #buffer: EventDraft[];
  #writing: Promise<void> = Promise.resolve();

  constructor(host: Pick<UnitHost, 'record' | 'begun'>) {
    this.#host = host;
    this.#buffer = [...host.begun];
  }

  add(...events: readonly EventDraft[]): void {
    this.#buffer.push(...events);
  }

  /** What goes with the unit's end, once everything before it is stored. */
  async drain(): Promise<readonly EventDraft[]> {
    await this.#writing;
    return this.#take();
  }

  /** Stores what is buffered, with these events behind it. Stores follow each other: the log has one order. */
  record(events: readonly EventDraft[] = []): Promise<void> {
    this.#buffer.push(...events);
    const writing = this.#writing.then(async () => {
      const taken = this.#take();
      if (taken.length === 0) return;
      try {
        await this.#host.record(taken);
      } catch (thrown) {
        // Nothing of it was stored. What led to the effect is still true; the effect is somebody else's.
        if (isTaken(thrown))
          this.#buffer = [...taken.filter(({ eventType }) => !IS_EFFECT.test(eventType)), ...this.#buffer];
        throw thrown;
      }
    });
    this.#writing = writing.catch((thrown: unknown) => {
      if (!isTaken(thrown)) throw thrown;
    });
    // Whoever waits for it is told; until then it is nobody's unhandled rejection.
    this.#writing.catch(() => {});
    return writing;
  }

  #take(): EventDraft[] {
    const facts = this.#buffer;
    this.#buffer = [];
    return facts;
  }
}

const IS_EFFECT = /^(EffectAttempted|PolicyEffectEvaluated)$/;
const isTaken = (thrown: unknown): boolean => thrown instanceof AppError && thrown.code === 'EFFECT_TAKEN';
