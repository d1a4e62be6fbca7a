import { resolve } from 'node:path';
import { AppError } from '../../contracts/errors.ts';
import { blobColumns, loadDuckChunk } from '../duckdb/duck-rows.ts';
import { duckError, runDuckTransaction } from '../duckdb/duck-transaction.ts';
import { loadDuckDb } from '../duckdb/load-duckdb.ts';
import { defaultEffectKey, destinationKey } from '../effect-key.ts';
import { abortError } from '../outcomes.ts';
import { loadPgCredential, readPgAuth } from '../postgres/pg-credential.ts';
import { pgFailure } from '../postgres/pg-errors.ts';
import { describePgTable, loadPgChunk } from '../postgres/pg-load.ts';
import type { PgLease } from '../postgres/pg-pools.ts';
import { reconcileEffect, runTransaction } from '../postgres/pg-transaction.ts';
import { quoteIdentifier, type RowChunk, type TransferMode } from '../sql/row-chunk.ts';
import type {
  CallContext,
  CallPlace,
  EffectClass,
  ProposedAction,
  Reconciliation,
  Tool,
  ToolOutcome,
} from '../tool.ts';
import { writeArtifactRows } from './artifact-rows.ts';
import { readSource } from './read-source.ts';
import { DEFAULT_CHUNK_SIZE, describeEnd, type Source, type Target, TransferInput } from './transfer-input.ts';
import { TransferResources, type TransferToolOptions } from './transfer-resources.ts';

type PgTarget = Extract<Target, { kind: 'postgres' }>;
type DuckTarget = Extract<Target, { kind: 'duckdb' }>;
type ArtifactTarget = Extract<Target, { kind: 'artifact' }>;

type Chunks = AsyncIterable<RowChunk>;

/** What the reading side failed with. The writing side sees it too, but would take it for a failure of its own. */
interface Ending {
  failure?: ToolOutcome;
}

/** Moves rows in chunks. The target gets all of them in one transaction, or none. */
export class TransferTool implements Tool {
  readonly kind = 'transfer';
  readonly input = TransferInput;
  readonly #resources: TransferResources;

  constructor(options: TransferToolOptions = {}) {
    this.#resources = new TransferResources(options);
  }

  classify(): EffectClass {
    return 'write';
  }

  propose(input: Record<string, unknown>): ProposedAction {
    const { source, target, mode } = input as TransferInput;
    return { operation: mode ?? 'append', target: describeEnd(target), fields: [`from ${describeEnd(source)}`] };
  }

  effectKey(input: Record<string, unknown>, place: CallPlace): string {
    const { source, target, mode } = input as TransferInput;
    return defaultEffectKey('transfer', describeEnd(target), place, { source, target, mode });
  }

  /** Replacing and upserting again, or storing the same bytes again, changes nothing more. */
  honoursKey(input: Record<string, unknown>): boolean {
    const { target, mode } = input as TransferInput;
    return target.kind === 'artifact' || mode === 'replace' || mode === 'upsert';
  }

  async call(input: Record<string, unknown>, context: CallContext): Promise<ToolOutcome> {
    const { signal } = context;
    if (signal.aborted) return { status: 'error', error: abortError(signal) };
    const { source, target, chunk_size: chunkSize = DEFAULT_CHUNK_SIZE, mode = 'append' } = input as TransferInput;
    const ended: Ending = {};
    const chunks = this.#read(source, chunkSize, context, ended);
    const outcome =
      target.kind === 'postgres'
        ? await this.#toPostgres(target, mode, chunks, context)
        : target.kind === 'duckdb'
          ? await this.#toDuckDb(target, mode, chunks, context)
          : await toArtifact(target, chunks, context);
    return outcome.status === 'error' && ended.failure && !signal.aborted ? ended.failure : outcome;
  }

  async reconcile(input: Record<string, unknown>, context: CallContext): Promise<Reconciliation> {
    const { target } = input as TransferInput;
    const key = this.#keyOf(context);
    if (target.kind !== 'postgres' || key === undefined) {
      return { found: 'unknown', reason: `a transfer to ${target.kind} leaves no key` };
    }
    try {
      return await reconcileEffect(await this.#acquire(target, context), key, context);
    } catch (error) {
      return { found: 'unknown', reason: (error as Error).message };
    }
  }

  close(): Promise<void> {
    return this.#resources.close();
  }

  async *#read(source: Source, chunkSize: number, context: CallContext, ended: Ending): AsyncGenerator<RowChunk> {
    try {
      for await (const chunk of readSource(source, chunkSize, context, this.#resources)) {
        context.signal.throwIfAborted();
        yield chunk;
      }
    } catch (error) {
      ended.failure = sourceFailure(source, error, context.signal);
      throw error;
    }
  }

  async #toPostgres(target: PgTarget, mode: TransferMode, chunks: Chunks, context: CallContext): Promise<ToolOutcome> {
    try {
      const lease = await this.#acquire(target, context);
      // While the source works, the target waits.
      const idleMs = Number.isFinite(context.timeoutMs) ? Math.ceil(context.timeoutMs) : 0;
      return await runTransaction(
        lease,
        context,
        { readOnly: false, key: this.#keyOf(context), idleMs },
        async (client) => {
          const table = await describePgTable(client, target.table);
          if (mode === 'replace') await client.query(`DELETE FROM ${table.name}`);
          const keys = mode === 'upsert' ? (target.keys ?? table.primaryKey) : [];
          return await moveAll(chunks, (chunk) => loadPgChunk(client, table, chunk, mode, keys));
        },
      );
    } catch (error) {
      return pgFailure(error, { signal: context.signal, readOnly: false, committing: false });
    }
  }

  async #toDuckDb(target: DuckTarget, mode: TransferMode, chunks: Chunks, context: CallContext): Promise<ToolOutcome> {
    try {
      const duckdb = await loadDuckDb();
      const handle = await this.#resources.duckDatabases.open(duckdb, resolve(this.#resources.folder, target.database));
      try {
        const { connection } = handle;
        const table = target.table.split('.').map(quoteIdentifier).join('.');
        const result = await runDuckTransaction(connection, false, context.signal, async () => {
          const into = { table, blobs: await blobColumns(connection, table) };
          if (mode === 'replace') await connection.run(`DELETE FROM ${table}`);
          return await moveAll(chunks, (chunk) =>
            loadDuckChunk(duckdb, connection, into, chunk, mode, target.keys ?? []),
          );
        });
        return { status: 'ok', result };
      } finally {
        handle.close();
      }
    } catch (error) {
      return { status: 'error', error: duckError(error, context.signal) };
    }
  }

  async #acquire(target: PgTarget, context: CallContext): Promise<PgLease> {
    const credential = await loadPgCredential(readPgAuth('transfer', target.auth), context.secret);
    return await this.#resources.pgTargets.acquire(credential, this.#resources.poolSettings, context.signal);
  }

  #keyOf(context: CallContext): string | undefined {
    if (!this.#resources.exactWrites || context.idempotencyKey === undefined) return undefined;
    return destinationKey(context.idempotencyKey, context.place);
  }
}

async function moveAll(source: Chunks, load: (chunk: RowChunk) => Promise<number>): Promise<object> {
  let rows = 0;
  let chunks = 0;
  for await (const chunk of source) {
    rows += await load(chunk);
    chunks += 1;
  }
  return { row_count: rows, chunks, status: 'success' };
}

async function toArtifact(target: ArtifactTarget, source: Chunks, context: CallContext): Promise<ToolOutcome> {
  let rows = 0;
  let chunks = 0;
  const bytes = writeArtifactRows(source, target.format ?? 'jsonl', (count) => {
    rows += count;
    chunks += 1;
  });
  try {
    const kind = target.artifact_kind ?? 'rows';
    const { uri, sha256, sizeBytes, expiresAt } = await context.artifacts.put(bytes, kind);
    const artifact = { uri, kind, sha256, sizeBytes, ...(expiresAt === undefined ? {} : { expiresAt }) };
    const result = { row_count: rows, chunks, status: 'success', artifact };
    return { status: 'ok', result, meta: { artifacts: [artifact] } };
  } catch (error) {
    if (context.signal.aborted) return { status: 'error', error: abortError(context.signal) };
    const { code = 'ARTIFACT_STORE_FAILED', message } = error as NodeJS.ErrnoException;
    const retryable = error instanceof AppError ? error.retryable : true;
    return { status: 'error', error: { kind: 'artifact', code, message, retryable } };
  }
}

/** The failure of the reading side. The writing side rolls back, so nothing has happened. */
function sourceFailure(source: Source, error: unknown, signal: AbortSignal): ToolOutcome {
  if (source.kind === 'postgres') return pgFailure(error, { signal, readOnly: true, committing: false });
  if (source.kind === 'duckdb') return { status: 'error', error: duckError(error, signal) };
  const { code, message } = error as { code?: string; message: string };
  const kind = code === 'INVALID_STEP_SCHEMA' ? 'input' : 'artifact';
  const retryable = error instanceof AppError ? error.retryable : true;
  return { status: 'error', error: { kind, code: code ?? 'ARTIFACT_STORE_FAILED', message, retryable } };
}
