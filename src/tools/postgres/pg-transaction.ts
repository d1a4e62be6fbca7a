import type pg from 'pg';
import { AppError } from '../../contracts/errors.ts';
import type { CallContext, Reconciliation, ToolOutcome } from '../tool.ts';
import { ensureEffectsTable, findEffectsTable, readEffect, takeKey, writeEffect } from './effects-table.ts';
import { pgFailure, sqlState } from './pg-errors.ts';
import type { PgLease } from './pg-pools.ts';

export interface TransactionMode {
  readonly readOnly: boolean;
  /** Where it is given, the key goes into the effects table of the target in the same transaction. */
  readonly key?: string | undefined;
  /** How long the transaction may wait for its next statement; a short while, unless the work waits for another source. */
  readonly idleMs?: number;
}

type Stop = (running: Promise<unknown>) => Promise<void>;
type Work = (client: pg.ClientBase, stop: Stop) => Promise<object>;

/** How long an abort waits for the answer to a COMMIT that was already sent. */
const COMMIT_GRACE_MS = 2000;
/**
 * A worker that stalls between two statements loses its transaction soon after its deadline, before anybody else asks what
 * became of the write.
 */
const IDLE_MS = 4000;

/** Runs work in one transaction and says exactly how it ended. The lease is given back, or cut where its state is not known. */
export async function runTransaction(
  lease: PgLease,
  context: CallContext,
  mode: TransactionMode,
  work: Work,
): Promise<ToolOutcome> {
  const { signal } = context;
  const transaction = new Transaction(lease, context, mode);
  const running = transaction.run(work);
  const onAbort = (): void => void transaction.abort(running);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    const outcome = await running;
    lease.release();
    return outcome;
  } catch (error) {
    const outcome = pgFailure(error, { signal, readOnly: mode.readOnly, committing: transaction.committing });
    if (signal.aborted || transaction.committing || sqlState(error)?.startsWith('08')) lease.destroy();
    else
      await lease.client.query('ROLLBACK').then(
        () => lease.release(),
        () => lease.destroy(),
      );
    return outcome;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

interface Begun {
  readonly effect?: { readonly table: string; readonly key: string };
  /** Why there is no table of effects. */
  readonly missing?: string;
}

class Transaction {
  committing = false;
  readonly #lease: PgLease;
  readonly #context: CallContext;
  readonly #mode: TransactionMode;
  readonly #deadline: number;

  constructor(lease: PgLease, context: CallContext, mode: TransactionMode) {
    this.#lease = lease;
    this.#context = context;
    this.#mode = mode;
    this.#deadline = performance.now() + context.timeoutMs;
  }

  async run(work: Work): Promise<ToolOutcome> {
    const { client } = this.#lease;
    const { readOnly } = this.#mode;
    const begun = await this.#begin();
    if ('stored' in begun) return begun.stored;
    const result = await work(client, (running) => this.#lease.cancel(running));
    if (readOnly) {
      // Nothing of a read stays: notifications and settings of the session go too.
      await client.query('ROLLBACK');
      return { status: 'ok', result };
    }
    if (begun.effect) await writeEffect(client, begun.effect.table, begun.effect.key, result);
    this.#checkTime();
    this.committing = true;
    const done = await client.query('COMMIT');
    this.committing = false;
    // The server answers the COMMIT of a failed transaction with ROLLBACK, and not with an error.
    if (done.command !== 'COMMIT') throw new AppError('TASK_FAILED', 'the transaction was rolled back');
    const why = begun.missing === undefined ? {} : { reason: begun.missing };
    return { status: 'ok', result, meta: { exact: begun.effect !== undefined, ...why } };
  }

  /** Begins, and takes the key where there is one; or gives the outcome of the call that had it before. */
  async #begin(): Promise<Begun | { readonly stored: ToolOutcome }> {
    const { client, notes } = this.#lease;
    const { readOnly, key, idleMs } = this.#mode;
    const begin = beginText(readOnly, this.#context.timeoutMs, idleMs);
    for (let isFirst = true; ; isFirst = false) {
      this.#checkTime();
      const effects = key === undefined ? undefined : await ensureEffectsTable(this.#lease);
      this.#checkTime();
      await client.query(begin);
      if (key === undefined || effects === undefined) return {};
      if ('missing' in effects) return { missing: effects.missing };
      const { table } = effects;
      try {
        if (await takeKey(client, table, key)) return { effect: { table, key } };
        const stored = await readEffect(client, table, key);
        await client.query('ROLLBACK');
        return { stored: { status: 'ok', result: stored?.result ?? null, meta: { exact: true, replayed: true } } };
      } catch (error) {
        // Somebody dropped the table since it was found.
        if (!isFirst || sqlState(error) !== '42P01') throw error;
        delete notes.effects;
        await client.query('ROLLBACK');
      }
    }
  }

  #checkTime(): void {
    this.#context.signal.throwIfAborted();
    // A process that was stopped for a while gets here before its timers do.
    if (performance.now() > this.#deadline) throw new AppError('TASK_TIMEOUT', 'the call ran out of time');
  }

  async abort(running: Promise<unknown>): Promise<void> {
    if (!this.committing) return await this.#lease.cancel(running);
    await Promise.race([
      running.catch(() => {}),
      new Promise((resolve) => setTimeout(resolve, COMMIT_GRACE_MS).unref()),
    ]);
    this.#lease.destroy();
  }
}

/** What became of the write with this key. A transaction that still holds the key is waited for, as long as the call may take. */
export async function reconcileEffect(lease: PgLease, key: string, context: CallContext): Promise<Reconciliation> {
  const { client } = lease;
  const asking = async (): Promise<Reconciliation> => {
    const effects = await findEffectsTable(client);
    if (!effects) return { found: 'unknown', reason: 'the target has no table of effects' };
    if ('missing' in effects) return { found: 'unknown', reason: effects.missing };
    await client.query(beginText(false, context.timeoutMs));
    // Taking the key waits for whoever holds it; it is given back by the rollback.
    const isAbsent = await takeKey(client, effects.table, key);
    const stored = isAbsent ? undefined : await readEffect(client, effects.table, key);
    await client.query('ROLLBACK');
    return stored ? { found: 'happened', result: stored.result } : { found: 'absent' };
  };
  const running = asking();
  const onAbort = (): void => void lease.cancel(running);
  context.signal.addEventListener('abort', onAbort, { once: true });
  try {
    const answer = await running;
    lease.release();
    return answer;
  } catch (error) {
    lease.destroy();
    return { found: 'unknown', reason: (error as Error).message };
  } finally {
    context.signal.removeEventListener('abort', onAbort);
  }
}

/** All in one message. The styles are those that the readers of values expect; the role may have others. */
export function beginText(readOnly: boolean, timeoutMs: number, idleMs = IDLE_MS): string {
  const settings = [
    'datestyle = ISO',
    'bytea_output = hex',
    'standard_conforming_strings = on',
    `idle_in_transaction_session_timeout = ${idleMs}`,
    ...(Number.isFinite(timeoutMs) ? [`statement_timeout = ${Math.max(1, Math.ceil(timeoutMs))}`] : []),
  ];
  return [`BEGIN ${readOnly ? 'READ ONLY' : 'READ WRITE'}`, ...settings.map((text) => `SET LOCAL ${text}`)].join('; ');
}
