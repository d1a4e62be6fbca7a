import type { DuckDBValue } from '@duckdb/node-api';
import { decimalValue, instantValue, integerValue, timestampValue } from '../sql/values.ts';
import type { DuckDb } from './load-duckdb.ts';

/** A value as JSON holds it, by the rules of `sql/values.ts`. */
export function fromDuck(duckdb: DuckDb, value: DuckDBValue): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'bigint') return integerValue(String(value));
  const inner = (item: DuckDBValue): unknown => fromDuck(duckdb, item);
  if (value instanceof duckdb.DuckDBDecimalValue) return decimalValue(String(value));
  if (value instanceof duckdb.DuckDBTimestampTZValue) return instantValue(String(value));
  if (
    value instanceof duckdb.DuckDBTimestampValue ||
    value instanceof duckdb.DuckDBTimestampSecondsValue ||
    value instanceof duckdb.DuckDBTimestampMillisecondsValue ||
    value instanceof duckdb.DuckDBTimestampNanosecondsValue
  ) {
    return timestampValue(String(value));
  }
  if (value instanceof duckdb.DuckDBBlobValue) return Buffer.from(value.bytes).toString('base64');
  if (value instanceof duckdb.DuckDBListValue || value instanceof duckdb.DuckDBArrayValue)
    return value.items.map(inner);
  if (value instanceof duckdb.DuckDBStructValue) {
    return Object.fromEntries(Object.entries(value.entries).map(([name, item]) => [name, inner(item)]));
  }
  if (value instanceof duckdb.DuckDBMapValue) return fromMap(duckdb, value.entries);
  if (value instanceof duckdb.DuckDBUnionValue) return inner(value.value);
  // Dates, times, intervals, UUIDs and bits: their text.
  return String(value);
}

/** A mapping where the keys are texts, else a list of pairs: JSON has no other keys. */
function fromMap(
  duckdb: DuckDb,
  entries: readonly { readonly key: DuckDBValue; readonly value: DuckDBValue }[],
): unknown {
  const pairs = entries.map(({ key, value }) => ({ key: fromDuck(duckdb, key), value: fromDuck(duckdb, value) }));
  if (pairs.every(({ key }) => typeof key === 'string')) {
    return Object.fromEntries(pairs.map(({ key, value }) => [key as string, value]));
  }
  return pairs;
}

/** A parameter as DuckDB takes it. Lists of one scalar type are lists, everything else that has parts is JSON text. */
export function toDuck(duckdb: DuckDb, value: unknown): DuckDBValue {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'bigint') return value;
  if (typeof value === 'number')
    return Number.isSafeInteger(value) && Math.abs(value) > 2 ** 31 - 1 ? BigInt(value) : value;
  if (Array.isArray(value) && value.length > 0) {
    if (value.every((item) => typeof item === 'string' || typeof item === 'boolean')) return duckdb.listValue(value);
    if (value.every((item) => Number.isSafeInteger(item)))
      return duckdb.listValue(value.map((item) => BigInt(item as number)));
    if (value.every((item) => typeof item === 'number')) return duckdb.listValue(value as number[]);
  }
  return JSON.stringify(value);
}
