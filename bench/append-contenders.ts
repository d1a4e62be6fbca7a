import { randomBytes, randomUUID } from 'node:crypto';
import pg from 'pg';
import { PostgresStore } from '../src/store/postgres-store.ts';
import type { NewRun } from '../src/store/store.ts';
import { sampleEvent, sampleRun } from '../src/testing/sample-events.ts';
import type { benchServer } from './harness.ts';

type Target = Awaited<ReturnType<typeof benchServer>>['target'];

/** One way to append. `producer` makes an independent writer of its own stream; calling it appends `batch` events. */
export interface Contender {
  readonly name: string;
  producer(batch: number): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

/** The same content for everybody: what a finished task leaves behind. */
const payload = {
  attempts: 1,
  outcome: { status: 'ok', meta: { duration_ms: 12, http_status: 200 } },
  result: { value: { rows: 17, next: 'cursor-000017', ok: true } },
};

export async function runledger(target: Target): Promise<Contender> {
  const store = await PostgresStore.open({ ...target, migrate: true });
  return {
    name: 'runledger',
    async producer(batch) {
      const run: NewRun = sampleRun(randomUUID());
      await store.createRun(run);
      let n = 0;
      return async () => {
        const events = Array.from({ length: batch }, () =>
          sampleEvent(
            run,
            { eventType: 'TaskDone', stepId: 'fetch', entity: `fetch/get:${++n}`, payload },
            new Date().toISOString(),
          ),
        );
        const result = await store.append(events, { as: 'worker' });
        if (!result.ok) throw result.error;
      };
    },
    close: () => store.close(),
  };
}

const EVENT_COLUMNS = `run_key bigint not null, run_seq bigint not null, event_id uuid not null, type smallint not null, path text not null,
  emitted_at text not null, engine_attempt integer not null, logical_attempt integer not null, idempotency_key bytea not null,
  record_hash bytea not null, chain_hash bytea not null, salt bytea, payload text, persisted_at timestamptz not null default clock_timestamp(),
  primary key (run_key, run_seq), unique (run_key, idempotency_key)`;

/** The transaction that everybody writes first: lock the stream, insert, move its head. */
export async function plainTransaction(target: Target): Promise<Contender> {
  const pool = new pg.Pool({ ...target, max: 32 });
  await pool.query(`create table if not exists plain_runs (run_key bigint primary key, last_seq bigint not null);
    create table if not exists plain_events (${EVENT_COLUMNS})`);
  const insert = `insert into plain_events (run_key, run_seq, event_id, type, path, emitted_at, engine_attempt, logical_attempt, idempotency_key, record_hash, chain_hash, salt, payload)
    values ($1, $2, $3, 44, $4, $5, 1, 1, $6, $7, $8, $9, $10)`;
  let keys = 0;
  const hash = randomBytes(32);
  const salt = randomBytes(16);
  return {
    name: 'plain transaction',
    async producer(batch) {
      const key = ++keys;
      await pool.query(
        'insert into plain_runs values ($1, 0) on conflict (run_key) do update set last_seq = plain_runs.last_seq',
        [key],
      );
      let n = 0;
      return async () => {
        const client = await pool.connect();
        try {
          await client.query('begin');
          const { rows } = await client.query({
            name: 'plain_lock',
            text: 'select last_seq from plain_runs where run_key = $1 for update',
            values: [key],
          });
          let seq = Number(rows[0].last_seq);
          for (let i = 0; i < batch; i++) {
            const values = [
              key,
              ++seq,
              randomUUID(),
              `fetch/get:${++n}`,
              new Date().toISOString(),
              randomBytes(32),
              hash,
              hash,
              salt,
              JSON.stringify(payload),
            ];
            await client.query({ name: 'plain_insert', text: insert, values });
          }
          await client.query({
            name: 'plain_update',
            text: 'update plain_runs set last_seq = $2 where run_key = $1',
            values: [key, seq],
          });
          await client.query('commit');
        } finally {
          client.release();
        }
      };
    },
    close: () => pool.end(),
  };
}

/**
 * The floor: the same client and the same rows with the same indexes, coalesced into prepared multi-row inserts, and no
 * semantics at all: no validation, no sequence, no de-duplication, no transition, no hash, no chain, no run row.
 */
export async function floor(target: Target): Promise<Contender> {
  const pool = new pg.Pool({ ...target, max: 4 });
  await pool.query(`create table if not exists floor_events (like runledger.run_events including indexes)`);
  const text = `insert into floor_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
        event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
    select u.run, u.seq, pg_current_xact_id()::text::bigint, clock_timestamp(), 1, 1, 1, 44, u.id, u.path, u.emitted,
           substring($6::bytea from o + 16 for 32), substring($6::bytea from o + 64 for 32), substring($6::bytea from o + 64 for 32),
           substring($6::bytea from o + 48 for 16), u.payload
      from unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $7::text[])
           with ordinality u(run, seq, id, path, emitted, payload, ord)
      cross join lateral (select (u.ord::integer - 1) * 96 + 1) p(o)`;
  interface Row {
    readonly id: string;
    readonly emitted: string;
    readonly payload: string;
    readonly run: number;
    readonly seq: number;
    readonly done: () => void;
    readonly fail: (error: unknown) => void;
  }
  const queue: Row[] = [];
  let inFlight = 0;
  let scheduled = false;
  const filler = randomBytes(96 * 256);
  const flush = (): void => {
    scheduled = false;
    while (queue.length > 0 && inFlight < 2) {
      const rows = queue.splice(0, 256);
      inFlight += 1;
      const bytes = Buffer.from(filler.subarray(0, rows.length * 96));
      rows.forEach((row, i) => {
        // A key of its own for every row.
        bytes.writeUInt32BE(row.run, i * 96 + 16);
        bytes.writeUInt32BE(row.seq, i * 96 + 20);
      });
      const values = [
        `{${rows.map((r) => r.run).join(',')}}`,
        `{${rows.map((r) => r.seq).join(',')}}`,
        `{${rows.map((r) => r.id).join(',')}}`,
        `{${rows.map((r) => `"fetch/get:${r.seq}"`).join(',')}}`,
        `{${rows.map((r) => r.emitted).join(',')}}`,
        bytes,
        `{${rows.map((r) => `"${r.payload.replace(/["\\]/g, '\\$&')}"`).join(',')}}`,
      ];
      pool
        .query({ name: 'floor', text, values })
        .then(
          () => {
            for (const row of rows) row.done();
          },
          (error: unknown) => {
            for (const row of rows) row.fail(error);
          },
        )
        .finally(() => {
          inFlight -= 1;
          schedule();
        });
    }
  };
  const schedule = (): void => {
    if (scheduled || queue.length === 0 || inFlight >= 2) return;
    scheduled = true;
    setImmediate(flush);
  };
  let keys = Math.floor(Date.now() / 1000) % 1_000_000_000;
  return {
    name: 'floor (insert only)',
    async producer(batch) {
      const run = ++keys;
      let seq = 0;
      const one = (): Promise<void> =>
        new Promise((done, fail) => {
          const row = {
            id: randomUUID(),
            emitted: new Date().toISOString(),
            payload: JSON.stringify({ ...payload, n: ++seq }),
          };
          queue.push({ ...row, run, seq, done, fail });
          schedule();
        });
      return async () => {
        await Promise.all(Array.from({ length: batch }, one));
      };
    },
    close: () => pool.end(),
  };
}

export async function emmett(target: Target): Promise<Contender> {
  const folder = new URL('./node_modules/@event-driven-io/emmett-postgresql/dist/index.js', import.meta.url);
  const { getPostgreSQLEventStore } = (await import(folder.href)) as {
    getPostgreSQLEventStore: (url: string) => {
      appendToStream(stream: string, events: unknown[]): Promise<unknown>;
      close(): Promise<void>;
    };
  };
  const url = `postgresql://${target.user}@localhost:${target.port}/${target.database}?host=${encodeURIComponent(target.host)}`;
  const store = getPostgreSQLEventStore(url);
  // Creates its schema on first use.
  await store.appendToStream(`warm-${randomUUID()}`, [{ type: 'TaskDone', data: payload }]);
  return {
    name: 'emmett-postgresql',
    async producer(batch) {
      const stream = `run-${randomUUID()}`;
      return async () => {
        await store.appendToStream(
          stream,
          Array.from({ length: batch }, () => ({
            type: 'TaskDone',
            data: payload,
            metadata: { emittedAt: new Date().toISOString() },
          })),
        );
      };
    },
    close: () => store.close(),
  };
}
