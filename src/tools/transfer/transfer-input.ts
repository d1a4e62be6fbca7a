import Type, { type Static } from 'typebox';
import { describePgAuth } from '../postgres/pg-credential.ts';
import { SqlParamsField } from '../sql/sql-input.ts';

const closed = { additionalProperties: false };
const Name = Type.String({ minLength: 1, maxLength: 4096 });
const Auth = Type.Union([Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())]);
const Format = Type.Optional(Type.Enum(['jsonl', 'csv', 'json']));
const Keys = Type.Optional(Type.Array(Name, { minItems: 1 }));
const Query = { command: Name, params: Type.Optional(SqlParamsField) };

const Source = Type.Union([
  Type.Object({ kind: Type.Literal('postgres'), auth: Auth, ...Query }, closed),
  Type.Object({ kind: Type.Literal('duckdb'), database: Type.Optional(Name), ...Query }, closed),
  Type.Object(
    {
      kind: Type.Literal('artifact'),
      ref: Type.Union([Name, Type.Object({ uri: Name }, { additionalProperties: true })]),
      format: Format,
    },
    closed,
  ),
]);
export type Source = Static<typeof Source>;

const Target = Type.Union([
  Type.Object({ kind: Type.Literal('postgres'), auth: Auth, table: Name, keys: Keys }, closed),
  Type.Object({ kind: Type.Literal('duckdb'), database: Name, table: Name, keys: Keys }, closed),
  Type.Object({ kind: Type.Literal('artifact'), format: Format, artifact_kind: Type.Optional(Name) }, closed),
]);
export type Target = Static<typeof Target>;

export const TransferInput = Type.Object(
  {
    source: Source,
    target: Target,
    /** Rows at a time: what memory holds. */
    chunk_size: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
    /** Whether rows are added, take the place of all that were there, or of those with the same key. */
    mode: Type.Optional(Type.Enum(['append', 'replace', 'upsert'])),
  },
  closed,
);
export type TransferInput = Static<typeof TransferInput>;

export const DEFAULT_CHUNK_SIZE = 1000;

/** Where it is, for those who judge and read receipts. */
export function describeEnd(end: Source | Target): string {
  const table = 'table' in end ? `:${end.table}` : '';
  if (end.kind === 'postgres') return `postgres ${describePgAuth(end.auth)}${table}`;
  if (end.kind === 'duckdb') return `duckdb ${end.database ?? ':memory:'}${table}`;
  if ('ref' in end) return `artifact ${typeof end.ref === 'string' ? end.ref : end.ref.uri}`;
  return `artifact ${end.artifact_kind ?? 'rows'}`;
}
