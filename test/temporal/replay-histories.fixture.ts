import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { workflowBundle } from '../../src/engines/temporal/workflow-bundle.ts';
import type { History } from './history-json.ts';

/** The ids of those histories that the workflow of today does not repeat. Needs no server. */
export async function brokenHistories(
  histories: readonly { readonly workflowId: string; readonly history: History }[],
): Promise<string[]> {
  beQuiet();
  const failed: string[] = [];
  const results = Worker.runReplayHistories({ workflowBundle: await workflowBundle() }, histories);
  for await (const { workflowId, error } of results) if (error) failed.push(workflowId);
  return failed;
}

function beQuiet(): void {
  try {
    Runtime.install({ shutdownSignals: [], logger: new DefaultLogger('ERROR', () => {}) });
  } catch {
    // The engine in this process has installed one, which is quiet too.
  }
}
