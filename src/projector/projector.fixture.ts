// What the tests of this folder share: a store of their own, logs that the append authority would refuse, and faults.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTestDatabase } from '../../test/setup/database.ts';
import type { Alert } from '../contracts/alerts.ts';
import { CATALOGUE, type EventType } from '../contracts/catalogue.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import type { RunSnapshot } from '../contracts/snapshot.ts';
import { PostgresStore } from '../store/postgres-store.ts';
import type { ProjectionClaim, ProjectionStore } from '../store/projection-store.ts';
import type { ProjectionStand } from '../store/sql/claim-projections.ts';
import type { TailEvent } from '../store/sql/read-tails.ts';
import type { NewRun } from '../store/store.ts';
import { runStarted, sampleError, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import type { Projector } from './projector.ts';
import { SnapshotProjector } from './snapshot-projector.ts';

export interface ProjectorBench {
  readonly url: string;
  readonly store: PostgresStore;
  close(): Promise<void>;
}

export async function openBench(): Promise<ProjectorBench> {
  const database = await createTestDatabase();
  const store = await PostgresStore.open({ url: database.url });
  return {
    url: database.url,
    store,
    async close() {
      await store.close();
      await database.drop();
    },
  };
}

export async function newRun(store: PostgresStore): Promise<NewRun> {
  const run = sampleRun(randomUUID());
  await store.createRun(run);
  return run;
}

/** A run with its first two events: asked for, and started. */
export async function runningRun(store: PostgresStore): Promise<NewRun> {
  const run = await newRun(store);
  await appendAll(store, [runStarted(run)], 'control');
  return run;
}

export async function appendAll(
  store: PostgresStore,
  events: readonly RunEventWrite[],
  as: 'worker' | 'control' = 'worker',
): Promise<void> {
  const result = await store.append(events, { as });
  if (!result.ok) throw result.error;
}

/** A step that starts and ends. */
export function stepOf(run: NewRun, stepId: string, end: 'StepCompleted' | 'StepFailed' = 'StepCompleted') {
  const payload = end === 'StepFailed' ? { payload: { error: sampleError } } : {};
  return [
    sampleEvent(run, { eventType: 'StepStarted', stepId }),
    sampleEvent(run, { eventType: end, stepId, ...payload }),
  ];
}

export interface ForgedEvent {
  readonly type: string;
  readonly step?: string;
  readonly payload?: unknown;
  /** Text that is stored as the payload, whatever it is. */
  readonly rawPayload?: string;
  readonly seq?: number;
  readonly attempt?: number;
  readonly ageMs?: number;
  readonly place?: { readonly era: number; readonly xid: number };
}

/** Writes what the append authority would refuse, as another store or an older version may have left it. */
export async function forge(store: PostgresStore, run: NewRun, events: readonly ForgedEvent[]): Promise<void> {
  await store.postgres.transaction(async (client) => {
    const text = 'select run_key, last_seq from runledger.runs where run_id = $1 for update';
    const { rows } = await client.query<{ run_key: string; last_seq: string }>(text, [run.runId]);
    const row = rows[0]!;
    let seq = Number(row.last_seq);
    for (const event of events) {
      seq = event.seq ?? seq + 1;
      const code = CATALOGUE[event.type as EventType]?.code ?? 9999;
      const payload = event.rawPayload ?? (event.payload === undefined ? null : JSON.stringify(event.payload));
      await client.query(
        `insert into runledger.run_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
           event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
         select $1, $2, coalesce($3, pg_current_xact_id()::text::bigint), clock_timestamp() - $4 * interval '1 millisecond',
           coalesce($5, era), 1, $6, $7, gen_random_uuid(), $8, '2026-02-11T10:30:00.000Z', sha256(gen_random_uuid()::text::bytea),
           ''::bytea, ''::bytea, ''::bytea, $9 from runledger.stream_state`,
        [
          row.run_key,
          seq,
          event.place?.xid ?? null,
          event.ageMs ?? 0,
          event.place?.era ?? null,
          event.attempt ?? 1,
          code,
          event.step ?? '',
          payload,
        ],
      );
    }
    await client.query('update runledger.runs set last_seq = $2 where run_key = $1', [row.run_key, seq]);
  });
}

/** Lets a test change what a projector sees. */
export function withFault(
  store: PostgresStore,
  fault: {
    readonly stand?: (stand: ProjectionStand) => ProjectionStand;
    /** Called for each fetch, with its number from 1 on; false hides the event. */
    readonly shows?: (event: TailEvent, fetch: number) => boolean;
    readonly beforeClaim?: () => Promise<void>;
    readonly beforeSave?: () => Promise<void>;
    readonly aheadMs?: () => number;
  },
): { readonly projections: ProjectionStore } {
  const real = store.projections;
  let fetches = 0;
  const tamper = (claim: ProjectionClaim): ProjectionClaim => ({
    stands: fault.stand ? claim.stands.map(fault.stand) : claim.stands,
    loadStates: (keys) => claim.loadStates(keys),
    async readTails(requests) {
      const tails = await claim.readTails(requests);
      fetches += 1;
      const shown = [...tails].map(
        ([key, events]) => [key, events.filter((event) => fault.shows?.(event, fetches) ?? true)] as const,
      );
      return new Map(shown.filter(([, events]) => events.length > 0));
    },
    async save(rows, alerts) {
      await fault.beforeSave?.();
      await claim.save(rows, alerts);
    },
  });
  return {
    projections: {
      ...real,
      async streamSnapshot() {
        const snapshot = await real.streamSnapshot();
        return { ...snapshot, nowMicros: snapshot.nowMicros + (fault.aheadMs?.() ?? 0) * 1000 };
      },
      async claim(runKeys, work) {
        await fault.beforeClaim?.();
        return real.claim(runKeys, (claim) => work(tamper(claim)));
      },
    },
  };
}

/** Projects until nothing is left, also what has to wait for its turn. */
export async function projectAll(projector: Projector): Promise<void> {
  while ((await projector.runOnce()).pending > 0) await sleep(10);
}

/** What is saved for a run. Fails when nothing is. */
export async function savedSnapshot(store: PostgresStore, run: NewRun): Promise<RunSnapshot> {
  const saved = await store.loadSnapshot(run.runId);
  if (!saved) throw new Error(`nothing is saved for ${run.runId}`);
  return saved.snapshot;
}

/** What projecting the whole log at once gives. */
export async function wholeProjection(store: PostgresStore, run: NewRun): Promise<RunSnapshot> {
  return new SnapshotProjector().projectRun(run.runId, await store.readEvents(run.runId, { limit: 10_000 }));
}

export async function alertsOf(store: PostgresStore, run: NewRun, code: string): Promise<Alert[]> {
  return (await store.listAlerts({ runId: run.runId, code })).reverse();
}
