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
  const byStep = stepMs !== undefined && stepMs <= (taskMs ?? Number.POSITIVE_INFINITY);
  const controller = new AbortController();
  const stop = (): void => controller.abort(outer.reason);
  if (outer.aborted) stop();
  else outer.addEventListener('abort', stop, { once: true });
  const timer = Number.isFinite(timeoutMs)
    ? setTimeout(() => {
        const seconds = timeoutMs / 1000;
        controller.abort(
          byStep
            ? new AppError('STEP_TIMEOUT', `The step took longer than it may; ${seconds} s were left.`)
            : new AppError('TASK_TIMEOUT', `The call took longer than ${seconds} s.`),
        );
      }, timeoutMs)
    : undefined;
  let late: NodeJS.Timeout | undefined;
  return {
    signal: controller.signal,
    timeoutMs,
    race(call) {
      return new Promise((resolve, reject) => {
        const giveUp = (): void => {
          late = setTimeout(() => reject(controller.signal.reason), STOP_GRACE_MS);
        };
        if (controller.signal.aborted) giveUp();
        else controller.signal.addEventListener('abort', giveUp, { once: true });
        call.then(resolve, reject);
      });
    },
    end() {
      clearTimeout(timer);
      clearTimeout(late);
      outer.removeEventListener('abort', stop);
    },
  };
}
