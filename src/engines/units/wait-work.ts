import { AppError } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { WaitState } from '../../kernel/state.ts';
import type { Lease } from '../../store/work.ts';
import { loadValue, storeResult } from '../../worker/store-result.ts';
import type { LeasedUnit } from './leased-unit.ts';

const CHILD_POLL_MS = 15_000;

/** Ends a wait whose time has come, or looks after the child that it waits for. */
export async function runWait(unit: LeasedUnit, entity: string): Promise<readonly Lease[]> {
  const wait = await unit.find(({ waits }) => waits.get(entity));
  if (!wait) return unit.discard();
  if (wait.kind === 'child') return awaitChild(unit, wait);
  if (wait.kind === 'hold') return unit.discard();
  const outcome = wait.kind === 'approval' ? 'expired' : 'done';
  return unit.decide({
    ask: ({ waits }) => (waits.has(entity) ? { type: 'waitEnded', entity, outcome } : undefined),
  });
}

async function awaitChild(unit: LeasedUnit, wait: WaitState): Promise<readonly Lease[]> {
  const { entity } = wait;
  let child = await unit.ports.store.findRun(wait.childRunId!);
  if (!child) {
    try {
      await unit.ports.startChild(unit.view, wait);
    } catch (thrown) {
      if (!(thrown instanceof AppError) || thrown.retryable) throw thrown;
      const error = { category: 'child', code: thrown.code, message: thrown.message, retryable: false };
      return unit.decide({ ask: () => ({ type: 'waitEnded', entity, outcome: 'failed', error }) });
    }
  }
  const hasEnded = async (): Promise<boolean> => {
    child = await unit.ports.store.findRun(wait.childRunId!);
    return child?.status !== undefined && isTerminal(child.status);
  };
  if (!(await hasEnded())) {
    const delayMs = unit.ports.childPollMs ?? CHILD_POLL_MS;
    await unit.ports.work.release([unit.held], { delayMs });
    unit.ports.scheduled?.([{ unit: unit.held.unit, dueAt: new Date(Date.now() + delayMs).toISOString() }]);
    // It may have ended while the row was held, and then nobody could wake it.
    if (await hasEnded()) await unit.ports.work.wake(unit.held.runId, unit.held.unit);
    return [];
  }
  const [last] = await unit.ports.store.readEvents(wait.childRunId!, {
    types: ['RunCompleted', 'RunFailed', 'RunCancelled'],
  });
  const returned = await childResult(unit, wait, last?.payload?.['result']);
  if (child?.status === 'COMPLETED') {
    const result = await storeResult(
      unit.ports.artifacts,
      asChildResult(returned, wait.childRunId!),
      undefined,
      'child-result',
    );
    return unit.decide({ ask: () => ({ type: 'waitEnded', entity, outcome: 'done', result }) });
  }
  const cause = last?.payload?.['error'] as { message?: string } | undefined;
  const message = `Child run ${wait.childRunId} ended ${child?.status}${cause?.message ? `: ${cause.message}` : '.'}`;
  const error = { category: 'child', code: 'CHILD_RUN_FAILED', message, retryable: false };
  return unit.decide({ ask: () => ({ type: 'waitEnded', entity, outcome: 'failed', error }) });
}

async function childResult(unit: LeasedUnit, wait: WaitState, last: unknown): Promise<unknown> {
  const step = wait.details?.['returnStep'];
  let stored = last;
  if (typeof step === 'string') {
    const done = await unit.ports.store.readEvents(wait.childRunId!, { types: ['StepCompleted'], entity: step });
    stored = done.at(-1)?.payload?.['result'];
  }
  return stored === undefined ? null : loadValue(unit.ports.artifacts, stored as never);
}

/** What a child returned, as templates of the parent read it: its fields at once, with status and id. */
function asChildResult(value: unknown, runId: string): unknown {
  const said = { status: 'COMPLETED', execution_id: runId };
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value, ...said };
  return { data: value, ...said };
}
