import Type, { type Static } from 'typebox';
import { defaultEffectKey, destinationKey } from '../effect-key.ts';
import { abortError } from '../outcomes.ts';
import { type BoundStatement, bindParams } from '../sql/bind-params.ts';
import type { Statement } from '../sql/split-statements.ts';
import { paramsOf, SqlParamsField, SqlText, statementsOf, tryStatements } from '../sql/sql-input.ts';
import type {
  CallContext,
  CallPlace,
  EffectClass,
  ProposedAction,
  Reconciliation,
  Tool,
  ToolOutcome,
} from '../tool.ts';
import { describePgAuth, loadPgCredential, readPgAuth } from './pg-credential.ts';
import { pgFailure } from './pg-errors.ts';
import { type PgLease, PgPools } from './pg-pools.ts';
import { checkNoCopy, isReadOnly, writeTarget } from './pg-statements.ts';
import { reconcileEffect, runTransaction } from './pg-transaction.ts';
import { type RowLimits, runStatement, type StatementResult } from './run-statement.ts';

const PostgresInput = Type.Object(
  {
    auth: Type.Union([Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())]),
    command: SqlText,
    params: Type.Optional(SqlParamsField),
    pool: Type.Optional(
      Type.Object(
        {
          max: Type.Optional(Type.Integer({ minimum: 1, maximum: 50 })),
          idle_seconds: Type.Optional(Type.Number({ minimum: 0, maximum: 3600 })),
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);
type PostgresInput = Static<typeof PostgresInput>;

export interface PostgresToolOptions extends Partial<RowLimits> {
  /** Whether writes leave their key in the target; true by default. Without it a lost answer stays unknown. */
  readonly exactWrites?: boolean;
  readonly maxConnections?: number;
  readonly idleMs?: number;
  readonly connectTimeoutMs?: number;
}

const DEFAULTS = {
  exactWrites: true,
  maxConnections: 4,
  idleMs: 30_000,
  connectTimeoutMs: 10_000,
  maxRows: 100_000,
  maxBytes: 64 * 1024 * 1024,
};

interface Prepared {
  readonly fields: PostgresInput;
  readonly statements: readonly Statement[];
  readonly bound: readonly BoundStatement[];
}

/**
 * Runs SQL in one transaction. What begins like a query is a read and runs READ ONLY, so that the class is true whatever the
 * functions in it do; a write leaves its key in the target.
 */
export class PostgresTool implements Tool {
  readonly kind = 'postgres';
  readonly input = PostgresInput;
  readonly #options: typeof DEFAULTS;
  readonly #pools = new PgPools();

  constructor(options: PostgresToolOptions = {}) {
    this.#options = { ...DEFAULTS, ...options };
  }

  classify(input: Record<string, unknown>): EffectClass {
    const statements = tryStatements('postgres', input as PostgresInput);
    return statements?.every(isReadOnly) ? 'read' : 'write';
  }

  propose(input: Record<string, unknown>): ProposedAction {
    const fields = input as PostgresInput;
    const statements = tryStatements('postgres', fields) ?? [];
    const where = describePgAuth(fields.auth);
    const names = [...new Set(statements.map(writeTarget).filter((name) => name !== undefined))];
    const params = paramsOf(fields);
    return {
      operation: [...new Set(statements.map(({ words }) => words[0] ?? 'sql'))].join('+') || 'sql',
      target: names.length > 0 ? `${where}:${names.join(',')}` : where,
      fields: params === undefined || Array.isArray(params) ? [] : Object.keys(params),
    };
  }

  effectKey(input: Record<string, unknown>, place: CallPlace): string {
    const { auth, command, params } = input as PostgresInput;
    return defaultEffectKey('postgres', describePgAuth(auth), place, { command, params });
  }

  async call(input: Record<string, unknown>, context: CallContext): Promise<ToolOutcome> {
    if (context.signal.aborted) return { status: 'error', error: abortError(context.signal) };
    try {
      const { fields, statements, bound } = prepare(input);
      const asked = context.effectClass ?? (statements.every(isReadOnly) ? 'read' : 'write');
      const readOnly = asked !== 'write';
      const key = this.#options.exactWrites && !readOnly ? keyOf(context) : undefined;
      const lease = await this.#acquire(fields, context);
      return await runTransaction(lease, context, { readOnly, key }, async (client, stop) => {
        const results: StatementResult[] = [];
        for (const statement of bound) {
          context.signal.throwIfAborted();
          results.push(await runStatement(client, statement, this.#options, stop));
        }
        return toResult(results);
      });
    } catch (error) {
      return pgFailure(error, { signal: context.signal, readOnly: false, committing: false });
    }
  }

  /** Final where writes leave their key: one that is still under way is waited for. */
  async reconcile(input: Record<string, unknown>, context: CallContext): Promise<Reconciliation> {
    const { fields } = prepare(input);
    const key = this.#options.exactWrites ? keyOf(context) : undefined;
    if (key === undefined) return { found: 'unknown', reason: 'this write leaves no key in the target' };
    try {
      return await reconcileEffect(await this.#acquire(fields, context), key, context);
    } catch (error) {
      return { found: 'unknown', reason: (error as Error).message };
    }
  }

  close(): Promise<void> {
    return this.#pools.close();
  }

  async #acquire(fields: PostgresInput, context: CallContext): Promise<PgLease> {
    const credential = await loadPgCredential(readPgAuth('postgres', fields.auth), context.secret);
    const settings = {
      max: fields.pool?.max ?? this.#options.maxConnections,
      idleMs: fields.pool?.idle_seconds === undefined ? this.#options.idleMs : fields.pool.idle_seconds * 1000,
      connectTimeoutMs: this.#options.connectTimeoutMs,
    };
    return await this.#pools.acquire(credential, settings, context.signal);
  }
}

function prepare(input: Record<string, unknown>): Prepared {
  const fields = input as PostgresInput;
  const statements = statementsOf('postgres', fields);
  statements.forEach(checkNoCopy);
  return { fields, statements, bound: bindParams(statements, paramsOf(fields)) };
}

function keyOf(context: CallContext): string | undefined {
  return context.idempotencyKey === undefined ? undefined : destinationKey(context.idempotencyKey, context.place);
}

/** Several statements: each under its number, and the last one's at the top. */
function toResult(results: readonly StatementResult[]): object {
  const last = results.at(-1)!;
  if (results.length === 1) return last;
  return { ...last, ...Object.fromEntries(results.map((result, i) => [`command_${i}`, result])) };
}
