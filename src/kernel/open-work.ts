import type { Plan } from '../contracts/plan.ts';
import type { ErrorInfo } from '../contracts/values.ts';
import type { EventDraft, WaitKind } from './commands.ts';
import { compilePlan } from './compile-plan.ts';
import { errorInfo } from './deciding.ts';
import { parseEntity, stepNameOf } from './entity-path.ts';
import { NeedValues } from './expressions/evaluation.ts';
import { isStopping } from './failures.ts';
import { isLoopComplete } from './loops.ts';
import { textOf } from './payload-reader.ts';
import { evalOptions, RunScope, type Values } from './run-scope.ts';
import type { RunState, WaitState } from './state.ts';
import { some } from './step-state.ts';

/** A unit that somebody has to take up: an attempt, an iteration, the end of a loop, or a wait that has a time. */
export type WorkUnit =
  | {
      readonly kind: 'step';
      readonly stepId: string;
      readonly attempt: number;
      readonly dueAt?: string;
      /** How often it was taken before: what comes back after a wait is not new. */
      readonly taken?: number;
    }
  | {
      readonly kind: 'iteration';
      readonly stepId: string;
      readonly attempt: number;
      readonly index: number;
      readonly dueAt?: string;
      readonly taken?: number;
    }
  /** Every iteration ended: their results have to be stored as one list. */
  | { readonly kind: 'loopEnd'; readonly stepId: string; readonly attempt: number }
  | {
      readonly kind: 'wait';
      readonly stepId: string;
      readonly attempt: number;
      readonly entity: string;
      readonly wait: WaitKind;
      readonly dueAt?: string;
    };

/**
 * All work that the log says is open, so that lost work rows can be rebuilt from it. It includes units that a worker
 * may be holding at this moment: whoever rebuilds knows the leases. While a run is PAUSED nothing of it is handed out.
 */
export function openWork(state: RunState): WorkUnit[] {
  const units: WorkUnit[] = [];
  const steps = state.open.values().sort((a, b) => a.ordinal - b.ordinal);
  for (const { stepId, attempt, status, openWaits, dueAt, cause, engineAttempt } of steps) {
    // Nobody routed a token there: a worker began it by itself.
    if (cause === undefined) continue;
    const loop = state.loops.get(stepId);
    if (status === 'PENDING') units.push({ kind: 'step', stepId, attempt, ...some('dueAt', dueAt) });
    else if (status === 'RUNNING' && !loop && openWaits === 0)
      units.push({ kind: 'step', stepId, attempt, ...some('taken', engineAttempt) });
    else if (status === 'RUNNING' && loop) {
      for (const [index, entry] of loop.open.entries().sort(([a], [b]) => a - b)) {
        if (entry.openWaits > 0) continue;
        const known = { ...some('dueAt', entry.dueAt), ...some('taken', entry.engineAttempt) };
        units.push({ kind: 'iteration', stepId, attempt, index, ...known });
      }
      if (isLoopComplete(loop)) units.push({ kind: 'loopEnd', stepId, attempt });
    }
  }
  for (const wait of state.waits.values().sort((a, b) => (a.entity < b.entity ? -1 : 1))) units.push(waitUnit(wait));
  return units;
}

function waitUnit({ stepId, attempt, entity, kind, dueAt }: WaitState): WorkUnit {
  return { kind: 'wait', stepId, attempt, entity, wait: kind, ...some('dueAt', dueAt) };
}

/** The work that decided events ask for. The end of a loop is told by the state: see `loopsToEnd`. */
export function workOf(events: readonly EventDraft[]): WorkUnit[] {
  return events.flatMap((event): WorkUnit[] => {
    const { stepId, entity, logicalAttemptId: attempt, payload } = event;
    if (stepId === undefined) return [];
    switch (event.eventType) {
      case 'StepScheduled':
        return [{ kind: 'step', stepId, attempt, ...some('dueAt', textOf(payload?.['dueAt'])) }];
      case 'LoopIterationScheduled':
        return [
          {
            kind: 'iteration',
            stepId,
            attempt,
            index: payload?.['index'] as number,
            ...some('dueAt', textOf(payload?.['dueAt'])),
          },
        ];
      case 'WaitStarted':
        return [
          {
            kind: 'wait',
            stepId,
            attempt,
            entity: entity as string,
            wait: payload?.['kind'] as WaitKind,
            ...some('dueAt', textOf(payload?.['dueAt'])),
          },
        ];
      case 'WaitEnded': {
        if (payload?.['outcome'] === 'cancelled') return [];
        const index = parseEntity(entity as string)?.iteration;
        const taken = some('taken', event.engineAttemptId);
        if (index === undefined) return [{ kind: 'step', stepId, attempt, ...taken }];
        return [{ kind: 'iteration', stepId, attempt, index, ...taken }];
      }
      default:
        return [];
    }
  });
}

/** Loops all of whose iterations ended, and whose result nobody has stored yet. */
export function loopsToEnd(state: RunState): { readonly stepId: string; readonly attempt: number }[] {
  const isRunning = (stepId: string) => state.open.get(stepId)?.status === 'RUNNING';
  const complete = state.loops.values().filter((loop) => isLoopComplete(loop) && isRunning(loop.stepId));
  return complete.map(({ stepId, attempt }) => ({ stepId, attempt }));
}

/** Whether workers that hold steps of this run should be told to stop. */
export function mustStop(state: RunState): boolean {
  return state.run.cancel !== undefined || state.run.failure?.mode === 'fail_fast';
}

/** The same for one step: the final step goes on after a failure. */
export function mustStopStep(plan: Plan, state: RunState, stepId: string): boolean {
  return isStopping(state.run, stepNameOf(stepId), plan.finalStep);
}

/** The list of a loop: its items, and the reference it came from if it is a stored value as it is. */
export type ResolvedLoop =
  | { readonly items: readonly unknown[]; readonly from?: string }
  | { readonly need: readonly string[] }
  | { readonly error: ErrorInfo };

/** Evaluates `loop.in` for a step that runs. Whoever asked stores the list and answers with `loopResolved`. */
export function resolveLoop(plan: Plan, state: RunState, stepId: string, values?: Values): ResolvedLoop {
  const step = state.open.get(stepId);
  const compiled = step && compilePlan(plan).steps.get(step.name);
  if (!step || !compiled?.loopIn) return { error: notAList('The step has no loop over a list.') };
  const scope = new RunScope(plan, state, values, { args: step.args, lineage: step.lineage });
  try {
    const list = compiled.loopIn.evaluate(scope, evalOptions(values));
    if (!Array.isArray(list)) {
      const kind = list === null || list === undefined ? 'nothing' : typeof list;
      return { error: notAList(`loop.in of step '${step.name}' gave ${kind}, not a list.`) };
    }
    const from = Object.entries(values ?? {}).find(([, value]) => value === list)?.[0];
    return { items: list, ...some('from', from) };
  } catch (thrown) {
    if (thrown instanceof NeedValues) return { need: thrown.refs };
    return { error: errorInfo(thrown, 'template') };
  }
}

function notAList(message: string): ErrorInfo {
  return { category: 'loop', code: 'LOOP_NOT_A_LIST', message, retryable: false };
}
