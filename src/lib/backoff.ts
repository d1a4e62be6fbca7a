/** How long to wait between tries. `delay` and `maxDelay` are seconds. */
export interface BackoffPolicy {
  readonly backoff?: 'none' | 'fixed' | 'linear' | 'exponential' | undefined;
  readonly delay?: number | undefined;
  readonly maxDelay?: number | undefined;
}

/** Where nothing else is said: about 5 s, 30 s, 2 min, 10 min, and 10 min from then on. */
const LADDER = [5, 30, 120, 600] as const;
const MAX_DELAY = 600;
/** A year: dates further off are a mistake, and would not fit into a time. */
const LONGEST = 31_536_000;

/**
 * Milliseconds until the try after `failed` failed ones. `random` in [0, 1) comes from the caller, so that the answer
 * is a function of its arguments. Steps that grow are spread by a tenth to each side, so that many runs which failed
 * together do not come back together; a delay that the author fixed is kept to the letter.
 */
export function backoffMillis(policy: BackoffPolicy, failed: number, random: number): number {
  const own = positive(policy.maxDelay);
  const cap = own ?? MAX_DELAY;
  const base = positive(policy.delay);
  const tries = Math.max(1, failed);
  switch (policy.backoff) {
    case 'none':
      return 0;
    case 'fixed':
      return millis(Math.min(base ?? LADDER[0], own ?? LONGEST));
    case 'linear':
      return millis(spread(Math.min((base ?? LADDER[0]) * tries, cap), random));
    case 'exponential':
      return millis(spread(Math.min((base ?? LADDER[0]) * 2 ** Math.min(tries - 1, 40), cap), random));
    case undefined:
      if (policy.delay !== undefined) return millis(Math.min(base ?? 0, own ?? LONGEST));
      return millis(spread(Math.min(LADDER[Math.min(tries, LADDER.length) - 1] as number, cap), random));
  }
}

function positive(value: number | undefined): number | undefined {
  return value !== undefined && Number.isFinite(value) && value >= 0 ? value : undefined;
}

function spread(seconds: number, random: number): number {
  return seconds * (0.9 + 0.2 * random);
}

function millis(seconds: number): number {
  return Math.round(Math.min(seconds, LONGEST) * 1000);
}
