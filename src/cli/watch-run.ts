import { AppError } from '../contracts/errors.ts';
import { isTerminal } from '../contracts/states.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { Progress } from './progress.ts';
import type { RunTree } from './run-tree.ts';

export interface Watch {
  readonly store: PostgresStore;
  readonly progress: () => Progress;
  readonly signal: AbortSignal;
}

const CHILD_WAIT_MS = 50;

/** Feeds the tree with the events of a run and of the runs that it starts, until it has ended or the signal says so. */
export async function watchRun(watch: Watch, tree: RunTree, path: readonly string[] = []): Promise<void> {
  const { store, signal } = watch;
  if (hasEnded(tree)) return;
  // Runs that were there when the watch began are watched as well.
  const children = [...tree.steps.values()].flatMap(({ stepId, children: runs }) =>
    runs.map((run) => watchChild(watch, run, [...path, startedBy(stepId, run)])),
  );
  for await (const event of store.follow(tree.runId, { afterSeq: tree.lastSeq, signal })) {
    const { step, child } = tree.take(event);
    if (step) watch.progress().changed(step, path);
    if (step && child) children.push(watchChild(watch, child, [...path, startedBy(step.stepId, child)]));
    if (hasEnded(tree)) break;
  }
  // A run ends after those that it waited for; their last events are read in a moment.
  await Promise.race([Promise.all(children), aborted(signal)]);
}

/** `step`, or `step/3` for an iteration. */
const startedBy = (stepId: string, { index }: RunTree): string => (index === undefined ? stepId : `${stepId}/${index}`);

export const hasEnded = ({ status }: RunTree): boolean => status !== undefined && isTerminal(status);

/** A child is named in its parent's log before it exists. */
async function watchChild(watch: Watch, tree: RunTree, path: readonly string[]): Promise<void> {
  while (!watch.signal.aborted) {
    try {
      await watchRun(watch, tree, path);
      return;
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'RUN_NOT_FOUND') throw error;
      await new Promise((resolve) => setTimeout(resolve, CHILD_WAIT_MS));
    }
  }
}

/** What the log holds already, without showing it. */
export async function catchUp(store: PostgresStore, tree: RunTree): Promise<void> {
  for (;;) {
    const page = await store.readEvents(tree.runId, { afterSeq: tree.lastSeq, limit: 1000 });
    for (const event of page) tree.take(event);
    if (page.length < 1000) break;
  }
  for (const { children } of tree.steps.values()) {
    for (const child of children) if (await store.findRun(child.runId)) await catchUp(store, child);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
