import { AppError } from '../contracts/errors.ts';

/** How long a call may go on after it was told to stop; then its outcome is no longer waited for. */
const STOP_GRACE_MS = 5000;

export interface Deadline {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** The call's result, or the abort's reason if the call does not end by itself. */
  race<T>(call: Promise<T>): Promise<T>;
  end(): void;
}

/** Joins the limits of a call: its own time-out, what is left of its step's, and the signal of its holder. */
export function deadline(outer: AbortSignal, taskMs: number | undefined, stepMs: number | undefined): Deadline {
  const timeoutMs = Math.min(taskMs ?? Number.POSITIVE_INFINITY, stepMs ?? Number.POSITIVE_INFINITY);
  // Most calls have no limit of their own, and share the signal of their holder.
  if (!Number.isFinite(timeoutMs)) return unlimited(outer);
  const byStep = stepMs !== undefined && stepMs <= (taskMs ?? Number.POSITIVE_INFINITY);
  const controller = new AbortController();
  const stop = (): void => controller.abort(outer.reason);
  if (outer.aborted) stop();
  else outer.addEventListener('abort', stop, { once: true });
  const timer = setTimeout(() => {
    const seconds = timeoutMs / 1000;
    controller.abort(
      byStep
        ? new AppError('STEP_TIMEOUT', `The step took longer than it may; ${seconds} s were left.`)
        : new AppError('TASK_TIMEOUT', `The call took longer than ${seconds} s.`),
    );
  }, timeoutMs);
  const limited = unlimited(controller.signal);
  return {
    ...limited,
    timeoutMs,
    end() {
      clearTimeout(timer);
      limited.end();
      outer.removeEventListener('abort', stop);
    },
  };
}

function unlimited(signal: AbortSignal): Deadline {
  let late: NodeJS.Timeout | undefined;
  let giveUp: (() => void) | undefined;
  return {
    signal,
    timeoutMs: Number.POSITIVE_INFINITY,
    race(call) {
      return new Promise((resolve, reject) => {
        giveUp = () => {
          late = setTimeout(() => reject(signal.reason), STOP_GRACE_MS);
        };
        if (signal.aborted) giveUp();
        else signal.addEventListener('abort', giveUp, { once: true });
        call.then(resolve, reject);
      });
    },
    end() {
      clearTimeout(late);
      if (giveUp) signal.removeEventListener('abort', giveUp);
    },
  };
}
