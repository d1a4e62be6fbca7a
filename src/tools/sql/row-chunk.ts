/** Rows on their way from one place to another; values are JSON by the rules of `values.ts`, so a JSON null arrives as NULL. */
export interface RowChunk {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

export type TransferMode = 'append' | 'replace' | 'upsert';

/** Keeps the last of the rows that have the same key: one statement cannot write a row twice. */
export function lastByKey(chunk: RowChunk, keys: readonly string[]): RowChunk {
  const places = keys.map((key) => chunk.columns.indexOf(key));
  const rows = new Map<string, readonly unknown[]>();
  for (const row of chunk.rows) {
    const key = JSON.stringify(places.map((place) => row[place]));
    rows.delete(key);
    rows.set(key, row);
  }
  return { columns: chunk.columns, rows: [...rows.values()] };
}

/** A text as an identifier of SQL. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
