import type { Alert } from '../contracts/alerts.ts';
import { raiseAlert, raiseAlerts } from './sql/alerts.ts';
import { claimProjections, type ProjectionStand } from './sql/claim-projections.ts';
import { advanceCursor, loadCursor } from './sql/cursors.ts';
import { noteEpisode } from './sql/note-episode.ts';
import type { Postgres } from './sql/postgres.ts';
import type { StreamCursor } from './sql/read-stream.ts';
import { readTails, type TailEvent, type TailRequest } from './sql/read-tails.ts';
import { loadStates, type ProjectionRow, saveProjections } from './sql/save-projections.ts';
import { scanUnprojected, type UnprojectedPage } from './sql/scan-unprojected.ts';
import { type HorizonHolder, horizonHolder, type StreamSnapshot, streamSnapshot } from './sql/stream-snapshot.ts';

/** Runs that are taken for projecting, inside the transaction that ends the claim. */
export interface ProjectionClaim {
  /** All runs that were asked for; only those with `claimed` may be saved. */
  readonly stands: readonly ProjectionStand[];
  loadStates(runKeys: readonly number[]): Promise<Map<number, string>>;
  readTails(requests: readonly TailRequest[]): Promise<Map<number, TailEvent[]>>;
  /** Last, because from the first write on the transaction holds back the stream's horizon. */
  save(rows: readonly ProjectionRow[], alerts: readonly Omit<Alert, 'raisedAt'>[]): Promise<void>;
}

/** What a projector asks of the store. */
export interface ProjectionStore {
  streamSnapshot(): Promise<StreamSnapshot>;
  scan(after: StreamCursor): Promise<UnprojectedPage>;
  /** The work may be done twice, when the connection is lost in between. */
  claim<T>(runKeys: readonly number[], work: (claim: ProjectionClaim) => Promise<T>): Promise<T>;
  loadCursor(): Promise<StreamCursor | undefined>;
  advanceCursor(to: StreamCursor): Promise<void>;
  horizonHolder(xid: number): Promise<HorizonHolder | undefined>;
  noteEpisode(name: string, quietMs: number): Promise<string>;
  raiseAlert(alert: Omit<Alert, 'raisedAt'>): Promise<boolean>;
  /** Changes when the server may be another one; what was read before does not count then. */
  losses(): number;
}

const CURSOR = 'projector';

export function projectionStore(postgres: Postgres): ProjectionStore {
  return {
    streamSnapshot: () => streamSnapshot(postgres),
    scan: (after) => scanUnprojected(postgres, after),
    claim: (runKeys, work) =>
      postgres.transaction(async (client) =>
        work({
          stands: await claimProjections(client, runKeys),
          loadStates: (keys) => loadStates(client, keys),
          readTails: (requests) => readTails(client, requests),
          async save(rows, alerts) {
            if (rows.length > 0) await saveProjections(client, rows);
            if (alerts.length > 0) await raiseAlerts(client, alerts);
          },
        }),
      ),
    loadCursor: () => loadCursor(postgres, CURSOR),
    advanceCursor: (to) => advanceCursor(postgres, CURSOR, to),
    horizonHolder: (xid) => horizonHolder(postgres, xid),
    noteEpisode: (name, quietMs) => noteEpisode(postgres, name, quietMs),
    raiseAlert: (alert) => raiseAlert(postgres, alert),
    losses: () => postgres.losses,
  };
}
