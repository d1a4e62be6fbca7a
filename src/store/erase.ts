import { eventRow } from '../contracts/catalogue.ts';
import type { AppendReceipt, LedgerRecord, RunEventWrite } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { microsToText } from '../lib/time.ts';
import type { PreparedEvent } from './prepared-event.ts';
import { payloadDigest } from './record-hash.ts';
import { erasePayloads } from './sql/erase-payloads.ts';
import type { Postgres } from './sql/postgres.ts';
import { type RunIdentity, readRunEvents, readRunEventsBySeq } from './sql/read-events.ts';
import { stampEvent } from './stamp-event.ts';
import type { EraseRequest } from './store.ts';

const MAX_TRIES = 5;

/**
 * Erases the payloads of some records of a run. The event that says so holds their digests, so that the records stay
 * verifiable: envelope and chain remain, only the content is gone.
 */
export async function erase(
  postgres: Postgres,
  run: RunIdentity,
  request: EraseRequest,
  prepare: (event: RunEventWrite) => PreparedEvent,
): Promise<AppendReceipt> {
  const runSeqs = [...new Set(request.runSeqs)].sort((a, b) => a - b);
  const records = await readRunEventsBySeq(postgres, run, runSeqs);
  checkErasable(run, runSeqs, records);
  const digests = records.map((record) => ({ runSeq: record.runSeq, payloadDigest: digestOf(record) }));
  for (let attempt = 1; ; attempt++) {
    const occurrence = await nextOccurrence(postgres, run);
    const prepared = prepare(erasureEvent(run, request, digests, occurrence));
    const answer = await erasePayloads(postgres, run.runKey, runSeqs, prepared).catch(refuseErased);
    if (!answer.ok) throw answer.error;
    const runSeq = answer.seqs[0] as number;
    // Not fresh: somebody else erased at the same time and took this number, or it is our own and the answer was lost.
    const [stored] = answer.fresh[0] ? [prepared.event] : await readRunEventsBySeq(postgres, run, [runSeq]);
    if (stored?.eventId === prepared.event.eventId) {
      const persistedAt = microsToText(answer.micros[0] as number);
      return { eventId: stored.eventId, runSeq, persistedAt, duplicate: false };
    }
    if (attempt >= MAX_TRIES) {
      throw new AppError('HEAD_MOVED', `Others erase in run ${run.runId} all the time`, { runId: run.runId });
    }
  }
}

/** Somebody else erased one of the records after they were read. */
function refuseErased(error: unknown): never {
  if ((error as { code?: string }).code !== 'RL002') throw error;
  throw new AppError('PAYLOAD_ERASED', 'One of these events was erased before', {}, { cause: error });
}

function checkErasable(run: RunIdentity, runSeqs: readonly number[], records: readonly LedgerRecord[]): void {
  const found = new Set(records.map((record) => record.runSeq));
  const missing = runSeqs.filter((seq) => !found.has(seq));
  if (runSeqs.length === 0 || missing.length > 0) {
    throw new AppError('USAGE', `Run ${run.runId} has no event ${missing[0] ?? '(none was named)'}`, { missing });
  }
  const erased = records.find((record) => record.erased);
  if (erased)
    throw new AppError('PAYLOAD_ERASED', `Event ${erased.runSeq} was erased before`, { runSeq: erased.runSeq });
  const kept = records.find((record) => record.eventType === 'PayloadErased' || !eventRow(record.eventType));
  if (kept)
    throw new AppError('USAGE', `Event ${kept.runSeq} is the proof of an erasure and stays`, { runSeq: kept.runSeq });
}

function digestOf(record: LedgerRecord): string {
  const payload = record.payload === undefined ? '' : canonicalJson(record.payload);
  return payloadDigest(Buffer.from(record.proof.salt ?? '', 'hex').toString('latin1'), payload);
}

async function nextOccurrence(postgres: Postgres, run: RunIdentity): Promise<number> {
  const code = eventRow('PayloadErased')?.code as number;
  let last = 0;
  for (let afterSeq = 0; ; ) {
    const page = await readRunEvents(postgres, run, { types: [code], afterSeq, limit: 1000 });
    for (const record of page) last = Math.max(last, record.logicalAttemptId);
    const end = page.at(-1);
    if (!end || page.length < 1000) return last + 1;
    afterSeq = end.runSeq;
  }
}

function erasureEvent(
  run: RunIdentity,
  request: EraseRequest,
  records: { runSeq: number; payloadDigest: string }[],
  occurrence: number,
): RunEventWrite {
  const payload = { records, reason: request.reason, ...(request.by === undefined ? {} : { by: request.by }) };
  return stampEvent(run, { eventType: 'PayloadErased', logicalAttemptId: occurrence, payload }, request);
}
