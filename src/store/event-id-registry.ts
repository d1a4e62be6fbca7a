import { randomUUID } from 'node:crypto';
import type { AppendReceipt, RunEventRecord } from '../contracts/envelope.ts';

/**
 * Gives each (run, idempotency key) one eventId for as long as the run lives in this process. It is written before the
 * append is tried, so a retry sends the same id. Its durable half is the log: after a restart a producer folds the run
 * again and hands the records to `restore`, and an id that was never stored was never seen by anybody.
 */
export class EventIdRegistry {
  readonly #runs = new Map<string, Map<string, string>>();

  /** The id for this key: the one given before, or a fresh v4. */
  idFor(runId: string, idempotencyKey: string): string {
    const ids = this.#of(runId);
    const known = ids.get(idempotencyKey);
    if (known !== undefined) return known;
    const id = randomUUID();
    ids.set(idempotencyKey, id);
    return id;
  }

  /** Takes over what the append authority answered: where it stored another id, that one holds from now on. */
  adopt(runId: string, idempotencyKey: string, receipt: Pick<AppendReceipt, 'eventId'>): void {
    this.#of(runId).set(idempotencyKey, receipt.eventId);
  }

  /** Fills the registry from stored records, as a producer does when it takes up a run. */
  restore(records: readonly RunEventRecord[]): void {
    for (const record of records) this.#of(record.runId).set(record.idempotencyKey, record.eventId);
  }

  /** A run that ended, or that another producer took over, needs no ids here any more. */
  forget(runId: string): void {
    this.#runs.delete(runId);
  }

  #of(runId: string): Map<string, string> {
    let ids = this.#runs.get(runId);
    if (!ids) {
      ids = new Map();
      this.#runs.set(runId, ids);
    }
    return ids;
  }
}
