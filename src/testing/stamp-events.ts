import type { RunEventRecord, RunEventWrite } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import { eventProblems } from '../contracts/validate-event.ts';
import type { EventDraft } from '../kernel/commands.ts';
import { idempotencyKey } from '../lib/idempotency-key.ts';
import { TEST_CONTEXT } from './record-log.ts';

/** What the shell adds to decided events: id, key, time and place in the log. A log in memory, with a store's manners. */
export class MemoryLog {
  readonly records: RunEventRecord[] = [];
  readonly #byKey = new Map<string, RunEventRecord>();
  readonly #identity: Pick<RunEventRecord, 'runId' | 'planId' | 'planVersion'>;

  constructor(identity: Pick<RunEventRecord, 'runId' | 'planId' | 'planVersion'>) {
    this.#identity = identity;
  }

  /** Appends what is not there yet and returns the new records. */
  append(drafts: readonly EventDraft[], now: string): RunEventRecord[] {
    const fresh: RunEventRecord[] = [];
    for (const draft of drafts) {
      const key = idempotencyKey({ ...this.#identity, ...draft });
      if (this.#byKey.has(key)) continue;
      const runSeq = this.records.length + 1;
      const event: RunEventWrite = {
        eventId: `00000000-0000-4000-8000-${String(runSeq).padStart(12, '0')}`,
        ...this.#identity,
        ...TEST_CONTEXT,
        ...draft,
        engineAttemptId: draft.engineAttemptId ?? 1,
        emittedAt: now,
        idempotencyKey: key,
      };
      const [problem] = eventProblems(event);
      if (problem) {
        const message = `${draft.eventType} cannot be stored: ${problem.path} ${problem.message}`;
        throw new AppError('SCHEMA_VALIDATION_FAILED', message, { event, problem });
      }
      const record: RunEventRecord = { ...event, runSeq, persistedAt: now };
      this.#byKey.set(key, record);
      this.records.push(record);
      fresh.push(record);
    }
    return fresh;
  }
}
