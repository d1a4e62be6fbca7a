import { resolve } from 'node:path';
import { readDuckRows } from '../duckdb/duck-rows.ts';
import { isDuckRead } from '../duckdb/duck-statements.ts';
import { loadDuckDb } from '../duckdb/load-duckdb.ts';
import { inputProblem } from '../outcomes.ts';
import { loadPgCredential, readPgAuth } from '../postgres/pg-credential.ts';
import { readPgRows } from '../postgres/pg-rows.ts';
import { isReadOnly } from '../postgres/pg-statements.ts';
import { type BoundStatement, bindParams, type SqlParams } from '../sql/bind-params.ts';
import type { RowChunk } from '../sql/row-chunk.ts';
import type { Statement } from '../sql/split-statements.ts';
import { paramsOf, statementsOf } from '../sql/sql-input.ts';
import type { CallContext } from '../tool.ts';
import { readArtifactRows } from './artifact-rows.ts';
import type { Source } from './transfer-input.ts';
import type { TransferResources } from './transfer-resources.ts';

/** The rows of a source, one chunk at a time. Ending the iteration early lets go of its connection. */
export async function* readSource(
  source: Source,
  chunkSize: number,
  context: CallContext,
  resources: TransferResources,
): AsyncGenerator<RowChunk> {
  if (source.kind === 'artifact') {
    const uri = typeof source.ref === 'string' ? source.ref : source.ref.uri;
    yield* readArtifactRows(await context.artifacts.get(uri), source.format ?? 'jsonl', chunkSize);
  } else if (source.kind === 'postgres') {
    const statement = oneQuery('postgres', source, isReadOnly);
    const credential = await loadPgCredential(readPgAuth('transfer', source.auth), context.secret);
    const lease = await resources.pgSources.acquire(credential, resources.poolSettings, context.signal);
    yield* readPgRows(lease, statement, chunkSize, context);
  } else {
    const statement = oneQuery('duckdb', source, isDuckRead);
    const duckdb = await loadDuckDb();
    const isMemory = source.database === undefined || source.database.startsWith(':memory:');
    const path = isMemory ? undefined : resolve(resources.folder, source.database ?? '');
    const handle = await resources.duckDatabases.open(duckdb, path);
    const onAbort = (): void => handle.connection.interrupt();
    context.signal.addEventListener('abort', onAbort, { once: true });
    try {
      await handle.connection.run('BEGIN TRANSACTION READ ONLY');
      yield* readDuckRows(duckdb, handle.connection, statement, chunkSize);
    } finally {
      context.signal.removeEventListener('abort', onAbort);
      handle.close();
    }
  }
}

/** A source is one query: what writes must not hide in the reading side of a transfer. */
function oneQuery(
  kind: string,
  source: { readonly command: string; readonly params?: SqlParams | null },
  isRead: (statement: Statement) => boolean,
): BoundStatement {
  const statements = statementsOf(kind, source);
  if (statements.length !== 1 || !isRead(statements[0]!)) {
    throw inputProblem('`source.command` of transfer must be one query that reads');
  }
  return bindParams(statements, paramsOf(source))[0]!;
}
