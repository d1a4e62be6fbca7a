import { LedgerEngine, type LedgerEnginePorts, type UnitPorts } from '../../exports/engine.ts';
import { clientConnection } from './connect.ts';
import { type TemporalOptions, temporalSettings } from './options.ts';
import { TemporalPlacement } from './temporal-placement.ts';
import type { TemporalWorker, TemporalWorkerOptions } from './temporal-worker.ts';

/** How soon a wait for a child looks again by itself; its end is told by a signal. */
const CHILD_POLL_MS = 300_000;

export interface OpenTemporalOptions {
  readonly temporal: TemporalOptions;
  readonly ports: LedgerEnginePorts;
  /** What a worker needs beyond; absent: this process starts runs and signals them, but takes no work. */
  readonly work?: Pick<UnitPorts, 'runner' | 'budget'> & { readonly options: TemporalWorkerOptions };
  readonly onError?: (error: unknown, what: string) => void;
}

export interface OpenedTemporal {
  readonly engine: LedgerEngine;
  readonly worker: TemporalWorker | undefined;
  close(drainMs?: number): Promise<void>;
}

/** The engine on Temporal, with a worker in this process where it is asked for. */
export async function openTemporal({ temporal, ports, work, onError }: OpenTemporalOptions): Promise<OpenedTemporal> {
  const settings = temporalSettings(temporal);
  const connection = await clientConnection(settings);
  const placement = new TemporalPlacement({
    connection,
    settings,
    store: ports.store,
    onError: onError ?? (() => {}),
  });
  const engine = new LedgerEngine(ports, placement);
  const open = async (): Promise<TemporalWorker | undefined> => {
    if (!work) return undefined;
    const { TemporalWorker } = await import('./temporal-worker.ts');
    const { options, ...rest } = work;
    return TemporalWorker.start(
      {
        ...ports,
        ...rest,
        engine,
        placement,
        settings,
        runAhead: false,
        childPollMs: CHILD_POLL_MS,
        startChild: (view, wait) => engine.startChild(view, wait),
        relaySignal: (runId, type, id) => engine.relaySignal(runId, type, id),
      },
      { ...(onError ? { onError } : {}), ...options },
    );
  };
  let worker: TemporalWorker | undefined;
  try {
    worker = await open();
  } catch (error) {
    await connection.close();
    throw error;
  }
  return {
    engine,
    worker,
    async close(drainMs) {
      await worker?.stop(drainMs);
      await connection.close();
    },
  };
}
