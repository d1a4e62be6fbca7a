import { AppError } from '../../contracts/errors.ts';
import type { PlanRef } from '../../contracts/values.ts';
import { parseEntity } from '../../kernel/entity-path.ts';
import { fold } from '../../kernel/evolve.ts';
import { type CarriedLoop, initialState, type RunState } from '../../kernel/state.ts';
import type { RunRow } from '../../store/sql/find-run.ts';
import { RunView } from '../../worker/run-view.ts';
import { storeResult } from '../../worker/store-result.ts';
import type { LedgerEnginePorts } from '../ledger-engine.ts';
import { loopResult } from './loop-result.ts';

const PAGE = 1000;

/** What a linked retry takes over from an ended run: its whole state, and what its loops have finished. */
export async function retryCommand(
  ports: LedgerEnginePorts,
  run: RunRow,
): Promise<{ old: RunState; planRef: PlanRef; loops: Record<string, CarriedLoop> }> {
  let old = initialState(run.runId, { keepFinished: true, results: 'all', lineage: 'all' });
  const finished = new Map<string, number[]>();
  for (;;) {
    const page = await ports.store.readEvents(run.runId, { afterSeq: old.lastEventSeq, limit: PAGE });
    old = fold(old, page);
    for (const { eventType, stepId, entity, logicalAttemptId } of page) {
      if (eventType !== 'LoopIterationDone' || stepId === undefined || entity === undefined) continue;
      const key = `${stepId}@${logicalAttemptId}`;
      finished.set(key, [...(finished.get(key) ?? []), parseEntity(entity)?.iteration ?? 0]);
    }
    if (page.length < PAGE) break;
  }
  const { planRef } = old.run;
  if (!planRef)
    throw new AppError('PLAN_NOT_FOUND', `The log of run ${run.runId} names no plan.`, { runId: run.runId });
  const { plan } = await ports.plans.fetch(planRef);
  const view = new RunView(run, plan);
  const loops: Record<string, CarriedLoop> = {};
  for (const loop of old.loops.values()) {
    const indexes = finished.get(`${loop.stepId}@${loop.attempt}`) ?? [];
    if (indexes.length === 0) continue;
    const results = loop.mode === 'cursor' ? undefined : await loopResult(ports.store, ports.artifacts, view, loop);
    loops[loop.stepId] = {
      finished: [...new Set([...loop.carried, ...indexes])].sort((a, b) => a - b),
      ...(loop.list === undefined ? {} : { list: loop.list }),
      ...(results ? { results: await storeResult(ports.artifacts, results, undefined, 'loop-result') } : {}),
    };
  }
  return { old, planRef, loops };
}
