/** What a test does when a named point is reached; undefined in every other process. */
let armed: ((name: string) => void | Promise<void>) | undefined;

/**
 * A place where a crash must do no harm. It does nothing unless a test armed it, which then may throw, wait or kill the
 * process. The result is awaited only if there is one, so that an unarmed point costs a comparison.
 */
export function faultPoint(name: string): void | Promise<void> {
  return armed === undefined ? undefined : armed(name);
}

/** For tests only. Gives back the function that disarms. */
export function armFaultPoints(action: (name: string) => void | Promise<void>): () => void {
  armed = action;
  return () => {
    armed = undefined;
  };
}
