import type pg from 'pg';
import type { BoundStatement } from '../sql/bind-params.ts';
import type { RowChunk } from '../sql/row-chunk.ts';
import type { CallContext } from '../tool.ts';
import type { PgLease } from './pg-pools.ts';
import { beginText } from './pg-transaction.ts';

/** Rows of a query in chunks, through a cursor in a READ ONLY transaction: memory holds one chunk, however many there are. */
export async function* readPgRows(
  lease: PgLease,
  statement: BoundStatement,
  chunkSize: number,
  context: CallContext,
): AsyncGenerator<RowChunk> {
  const { client } = lease;
  const { signal, timeoutMs } = context;
  let running: Promise<unknown> = Promise.resolve();
  const onAbort = (): void => void lease.cancel(running);
  signal.addEventListener('abort', onAbort, { once: true });
  let isClean = false;
  try {
    signal.throwIfAborted();
    // The target may take its time over a chunk.
    await client.query(beginText(true, timeoutMs, 0));
    const { text, values } = statement;
    await client.query({
      text: `DECLARE transfer NO SCROLL CURSOR FOR ${text}`,
      values: [...values],
      queryMode: 'extended',
    } as pg.QueryConfig);
    for (;;) {
      signal.throwIfAborted();
      const fetching = client.query({ text: `FETCH ${chunkSize} FROM transfer`, rowMode: 'array' });
      running = fetching;
      const { rows, fields } = await fetching;
      if (rows.length > 0) yield { columns: fields.map(({ name }) => name), rows: rows as unknown[][] };
      if (rows.length < chunkSize) break;
    }
    await client.query('ROLLBACK');
    isClean = true;
  } finally {
    signal.removeEventListener('abort', onAbort);
    if (isClean) lease.release();
    else lease.destroy();
  }
}
