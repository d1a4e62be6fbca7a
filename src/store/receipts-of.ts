import type { AppendReceipt } from '../contracts/envelope.ts';
import { microsToText } from '../lib/time.ts';
import type { PreparedEvent } from './prepared-event.ts';
import type { CallAnswer } from './sql/append-events.ts';

/** An append that was taken. */
export type Accepted = Extract<CallAnswer, { ok: true }>;

/** What the producer of each event is told. Events that were stored before have the id of the stored one. */
export function receiptsOf(
  prepared: readonly PreparedEvent[],
  answer: Accepted,
  storedIds?: ReadonlyMap<number, string>,
): AppendReceipt[] {
  // Nearly all of them were stored at one moment.
  let [micros, persistedAt] = [-1, ''];
  return prepared.map(({ event }, i) => {
    const runSeq = answer.seqs[i] as number;
    if (answer.micros[i] !== micros) {
      micros = answer.micros[i] as number;
      persistedAt = microsToText(micros);
    }
    return {
      eventId: storedIds?.get(runSeq) ?? event.eventId,
      runSeq,
      persistedAt,
      duplicate: !answer.fresh[i],
    };
  });
}
