import { inputProblem } from '../outcomes.ts';
import type { RowChunk } from '../sql/row-chunk.ts';
import { csvRecord, parseCsv } from './csv.ts';

export type RowFormat = 'jsonl' | 'csv' | 'json';

/** The rows of an artifact. Its bytes are in memory as a whole, as they must be to be verified before the first row is used. */
export function* readArtifactRows(bytes: Uint8Array, format: RowFormat, chunkSize: number): Generator<RowChunk> {
  const text = decode(bytes);
  if (format === 'csv') yield* csvChunks(text, chunkSize);
  else yield* objectChunks(format === 'json' ? jsonItems(text) : jsonLines(text), chunkSize);
}

/** The same rows as the bytes of an artifact, while they arrive. */
export async function* writeArtifactRows(
  chunks: AsyncIterable<RowChunk>,
  format: RowFormat,
  counted: (rows: number) => void,
): AsyncGenerator<Uint8Array> {
  let isFirst = true;
  for await (const { columns, rows } of chunks) {
    let text = '';
    if (format === 'csv' && isFirst) text += csvRecord(columns);
    for (const [i, row] of rows.entries()) {
      const isFirstRow = isFirst && i === 0;
      if (format === 'csv') text += csvRecord(row);
      else {
        const item = JSON.stringify(Object.fromEntries(columns.map((name, place) => [name, row[place] ?? null])));
        text += format === 'jsonl' ? `${item}\n` : `${isFirstRow ? '[' : ','}${item}`;
      }
    }
    isFirst = false;
    counted(rows.length);
    yield Buffer.from(text);
  }
  if (format === 'json') yield Buffer.from(isFirst ? '[]' : ']');
}

function* csvChunks(text: string, chunkSize: number): Generator<RowChunk> {
  let columns: string[] | undefined;
  let rows: (string | null)[][] = [];
  let line = 0;
  for (const record of parseCsv(text)) {
    line += 1;
    if (!columns) {
      columns = record.map((name) => name ?? '');
      if (columns.includes('') || new Set(columns).size < columns.length) {
        throw inputProblem('the first record of the CSV must name the columns, each once');
      }
      continue;
    }
    // The last line may be empty.
    if (record.length === 1 && record[0] === null && columns.length > 1) continue;
    if (record.length !== columns.length) {
      throw inputProblem(`record ${line} of the CSV has ${record.length} fields instead of ${columns.length}`);
    }
    rows.push(record);
    if (rows.length < chunkSize) continue;
    yield { columns, rows };
    rows = [];
  }
  if (columns && rows.length > 0) yield { columns, rows };
}

/** The columns are those of the first chunk; a row that brings another is a mistake, not data to drop. */
function* objectChunks(items: Iterable<unknown>, chunkSize: number): Generator<RowChunk> {
  let columns: string[] | undefined;
  let objects: Record<string, unknown>[] = [];
  const toChunk = (): RowChunk => {
    columns ??= [...new Set(objects.flatMap((object) => Object.keys(object)))];
    const known = new Set(columns);
    const rows = objects.map((object) => {
      const other = Object.keys(object).find((name) => !known.has(name));
      if (other !== undefined)
        throw inputProblem(`a later row has the column '${other}', which the first ones do not have`);
      return columns!.map((name) => object[name] ?? null);
    });
    objects = [];
    return { columns, rows };
  };
  for (const item of items) {
    if (typeof item !== 'object' || item === null || Array.isArray(item)) {
      throw inputProblem('every row of the artifact must be an object');
    }
    objects.push(item as Record<string, unknown>);
    if (objects.length >= chunkSize) yield toChunk();
  }
  if (objects.length > 0) yield toChunk();
}

function* jsonLines(text: string): Generator<unknown> {
  let line = 0;
  for (const part of text.split('\n')) {
    line += 1;
    if (part.trim() === '') continue;
    try {
      yield JSON.parse(part);
    } catch {
      throw inputProblem(`line ${line} of the artifact is not JSON`);
    }
  }
}

function jsonItems(text: string): unknown[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw inputProblem('the artifact is not JSON');
  }
  if (!Array.isArray(value)) throw inputProblem('the artifact must be a list of rows');
  return value;
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw inputProblem('the artifact is not UTF-8 text');
  }
}
