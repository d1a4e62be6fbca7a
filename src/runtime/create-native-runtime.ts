import { LedgerEngine, type LedgerEnginePorts } from '../engines/ledger-engine.ts';
import { nativePlacement } from '../engines/native/native-placement.ts';
import { NativeWorker, type NativeWorkerOptions } from '../engines/native/native-worker.ts';
import { type EngineOptions, type EngineRuntime, engineParts } from './engine-parts.ts';

export interface NativeRuntimeOptions extends EngineOptions {
  /** False: this process starts runs and signals them, but takes no work. */
  readonly worker?: NativeWorkerOptions | false;
  /** A run that this process worked on has ended. */
  readonly onEnd?: (runId: string) => void;
  /** Steps that only compute or read do not wait for the commit of the step before them. */
  readonly runAhead?: boolean;
}

export interface NativeRuntime extends EngineRuntime {
  readonly worker: NativeWorker | undefined;
}

/** The native engine and its worker in one process. Any number of these share one database. */
export function createNativeRuntime(options: NativeRuntimeOptions): NativeRuntime {
  const parts = engineParts(options);
  const { work, signals, views } = parts.ports;
  let worker: NativeWorker | undefined;
  const ports: LedgerEnginePorts = {
    ...parts.ports,
    dueAt: (millis) => worker?.lookAt(millis),
    ended: (view) => {
      views.forget(view.run.runId);
      options.onEnd?.(view.run.runId);
      const { parentRunId, parentEntity } = view.state.run;
      if (parentRunId === undefined || parentEntity === undefined) return;
      // Lost in a crash, the parent looks by itself before long.
      work
        .wake(parentRunId, `w:${parentEntity}`)
        .then(() => {
          signals.work();
          worker?.claim();
        })
        .catch(() => {});
    },
  };
  const engine = new LedgerEngine(
    ports,
    nativePlacement(() => worker),
  );
  if (options.worker !== false) {
    worker = new NativeWorker(
      {
        ...ports,
        runner: parts.runner,
        runAhead: options.runAhead ?? true,
        budget: parts.budget,
        startChild: (view, wait) => engine.startChild(view, wait),
        relaySignal: (runId, type, id) => engine.relaySignal(runId, type, id),
      },
      options.worker ?? {},
    );
    worker.start();
  }
  return {
    engine,
    plans: ports.plans,
    worker,
    async close(drainMs) {
      await worker?.stop(drainMs);
      await parts.close();
    },
  };
}
