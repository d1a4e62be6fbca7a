import type { Placement } from '../ledger-engine.ts';
import type { NativeWorker } from './native-worker.ts';

/** Runs on leases in the store: rows of work are all the scheduling there is. */
export function nativePlacement(worker: () => NativeWorker | undefined): Placement {
  return {
    engine: 'native',
    ref: ({ runId }) => ({ provider: 'native', workflowId: runId, runId }),
    taker: worker,
    prepare: async () => {},
    async placed({ run: { runKey, runId }, leases }) {
      worker()?.take(leases.map((lease) => ({ ...lease, runKey, runId })));
    },
    // Workers are told by notification, and find the rows by themselves.
    changed: async () => {},
    word: async () => undefined,
  };
}
