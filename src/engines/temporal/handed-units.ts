import type { ClaimedUnit } from '../../exports/engine.ts';

/** What was handed over longer ago than this is asked for again: meanwhile the run may have been paused. */
const FRESH_MS = 1000;
const MAX_HANDED = 10_000;

type Handed = Pick<ClaimedUnit, 'runKey' | 'runId' | 'unit' | 'fence' | 'deliveries'>;

/**
 * Units whose fence this process got when it stored what led to them. Their lease has no time: anybody may claim them at
 * once, and then the fence is void. Whoever gets the activity in this process saves the claim.
 */
export class HandedUnits {
  readonly #units = new Map<string, { readonly unit: Handed; readonly at: number }>();

  put(unit: Handed): void {
    if (this.#units.size >= MAX_HANDED) this.#units.clear();
    this.#units.set(`${unit.runId} ${unit.unit}`, { unit, at: performance.now() });
  }

  take(runId: string, unit: string): Handed | undefined {
    const key = `${runId} ${unit}`;
    const found = this.#units.get(key);
    this.#units.delete(key);
    return found && performance.now() - found.at < FRESH_MS ? found.unit : undefined;
  }
}
