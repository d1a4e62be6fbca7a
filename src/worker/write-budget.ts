import { eventRow } from '../contracts/catalogue.ts';
import { AppError } from '../contracts/errors.ts';

export interface WriteBudgetOptions {
  /** How long a write may take. */
  readonly writeLatencyBudgetMs?: number;
  /** Types that may be written later: the step goes on without them. */
  readonly failOpenForEventClass?: readonly string[];
  /** Types without which the step has not happened: over the budget, it fails. */
  readonly neverFailOpen?: readonly string[];
}

/** The budget of writes to the log, and what each type does when it is over. */
export class WriteBudget {
  readonly millis: number;
  readonly #open: ReadonlySet<string>;
  readonly #never: ReadonlySet<string>;

  constructor(options: WriteBudgetOptions = {}) {
    this.millis = options.writeLatencyBudgetMs ?? 3000;
    this.#open = new Set(options.failOpenForEventClass ?? ['StepStarted']);
    this.#never = new Set(options.neverFailOpen ?? ['StepCompleted', 'StepFailed']);
    const refuse = (message: string): never => {
      throw new AppError('CONFIG_INVALID', `stateStore: ${message}`);
    };
    if (!Number.isFinite(this.millis) || this.millis <= 0) refuse('writeLatencyBudgetMs must be a positive number');
    for (const type of [...this.#open, ...this.#never]) {
      if (!eventRow(type)) refuse(`'${type}' is not a type of the catalogue`);
    }
    for (const type of this.#open) {
      if (this.#never.has(type)) refuse(`'${type}' is in failOpenForEventClass and in neverFailOpen`);
    }
  }

  /** Whether the step may go on although these were not written in time. */
  failsOpen(types: readonly string[]): boolean {
    return types.every((type) => this.#open.has(type));
  }

  /** Whether the step fails if these are not written in time. */
  failsStep(types: readonly string[]): boolean {
    return types.some((type) => this.#never.has(type));
  }

  /** The answer, or 'late' when the budget is over; the write itself goes on. */
  async within<T>(write: Promise<T>): Promise<T | 'late'> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), this.millis);
    });
    try {
      return await Promise.race([write, late]);
    } finally {
      clearTimeout(timer);
    }
  }
}
