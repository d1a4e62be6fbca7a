import { isTerminal } from '../../contracts/states.ts';
import type { EventDraft } from '../../kernel/commands.ts';
import { parseEntity } from '../../kernel/entity-path.ts';
import { mustStop, workOf } from '../../kernel/open-work.ts';
import type { RunState } from '../../kernel/state.ts';
import { some } from '../../kernel/step-state.ts';
import type { Lease, LoopChange, WorkChange } from '../../store/work.ts';
import { loopKey, unitKey } from '../../store/work-unit.ts';

export interface WorkPlan {
  readonly work: readonly WorkChange[];
  readonly loops: readonly LoopChange[];
  /** Units that anybody may take at once. */
  readonly free: number;
  /** Whoever holds units of the run must be told to stop. */
  readonly stops: boolean;
}

export interface WorkContext {
  readonly before: RunState;
  readonly after: RunState;
  /** The unit under whose lease the decision is made; it ends with it. */
  readonly own?: Lease | undefined;
  /** How many of the new units the caller can take at once. */
  readonly room: number;
  readonly graceMs: number;
  readonly now: number;
}

/** What a row says of its unit. */
interface Inserted {
  readonly dueAt?: string;
  readonly taken?: number;
}

/**
 * The rows that follow from a decision: what is read off its events, and nothing else, so that lost rows can always be
 * made again from the log.
 */
export function workChanges(events: readonly EventDraft[], context: WorkContext): WorkPlan {
  const { after, own } = context;
  const inserts = new Map<string, Inserted>();
  const deletes = new Set<string>();
  const drop = (unit: string): void => {
    if (!inserts.delete(unit) && unit !== own?.unit) deletes.add(unit);
  };
  const begun = new Set<string>();
  for (const event of events) {
    const { eventType, stepId, entity, logicalAttemptId: attempt } = event;
    if (eventType === 'LoopStarted') begun.add(stepId!);
    if (eventType === 'StepCompleted' || eventType === 'StepFailed' || eventType === 'StepSkipped') {
      drop(unitKey({ kind: 'step', stepId: stepId!, attempt }));
    } else if (eventType === 'LoopIterationDone' || eventType === 'LoopIterationFailed') {
      drop(unitKey({ kind: 'iteration', stepId: stepId!, attempt, index: parseEntity(entity!)!.iteration! }));
    } else if (eventType === 'LoopDone') {
      drop(unitKey({ kind: 'loopEnd', stepId: stepId!, attempt }));
    } else if (eventType === 'WaitEnded') {
      drop(unitKey({ kind: 'wait', entity: entity! }));
    }
    for (const unit of workOf([event])) {
      // A loop that is under way hands out its iterations itself: two hands would give one index twice.
      if (unit.kind === 'iteration' && event.eventType === 'LoopIterationScheduled' && !begun.has(unit.stepId))
        continue;
      // Nobody has to take up a wait that has no time; whoever ends it says so.
      if (unit.kind === 'wait' && unit.wait !== 'child' && unit.dueAt === undefined) continue;
      inserts.set(unitKey(unit), unit.kind === 'loopEnd' ? {} : unit);
    }
  }
  for (const [key] of inserts) if (!isWanted(after, key)) inserts.delete(key);
  return assemble(events, context, inserts, deletes, begun);
}

/** A unit whose step ended in the same decision is not work any more. */
function isWanted(after: RunState, key: string): boolean {
  if (key.startsWith('w:')) return after.waits.has(key.slice(2));
  const stepId = key.slice(2, key.lastIndexOf('@'));
  const step = after.open.get(stepId);
  return step !== undefined && (step.status === 'PENDING' || step.status === 'RUNNING');
}

function assemble(
  events: readonly EventDraft[],
  { before, after, own, room, graceMs, now }: WorkContext,
  inserts: ReadonlyMap<string, Inserted>,
  deletes: ReadonlySet<string>,
  begun: ReadonlySet<string>,
): WorkPlan {
  const work: WorkChange[] = [];
  const { status } = after.run;
  const isOver = status !== null && isTerminal(status);
  if (own) work.push({ op: 'delete', ...own });
  if (!isOver) for (const unit of deletes) work.push({ op: 'delete', unit });
  let left = room;
  let free = 0;
  for (const [unit, { dueAt, taken }] of inserts) {
    const held = status === 'PAUSED' && !unit.startsWith('w:');
    const isLater = dueAt !== undefined && Date.parse(dueAt) > now;
    const lease = !held && !isLater && left > 0;
    if (lease) left -= 1;
    else if (!held && !isLater) free += 1;
    const known = { ...some('dueAt', dueAt), ...some('taken', taken) };
    work.push({ op: 'insert', unit, ...known, lease, held });
  }
  // After a failure with nothing in flight the final step is new here, and is not to be stopped.
  const inFlight = after.open.values().some((step) => step.status === 'RUNNING' && before.open.has(step.stepId));
  const stops = mustStop(after) && !mustStop(before) && (after.run.cancel !== undefined || inFlight);
  if (stops && !isOver) {
    work.push({ op: 'stop' });
    work.push({ op: 'insert', unit: 'g:', dueAt: new Date(now + graceMs).toISOString() });
  }
  for (const { eventType, payload } of events) {
    if (eventType === 'RunPaused') work.push({ op: 'hold' });
    if (eventType === 'RunResumed') {
      work.push({ op: 'letGo' });
      free += 1;
    }
    if (eventType === 'SignalAccepted') relay(work, before, payload!);
  }
  if (isOver) work.push({ op: 'clear' });
  free += work.filter((change) => change.op === 'insert' && change.unit.startsWith('x:')).length;
  return { work, loops: loopChanges(after, begun), free, stops };
}

/** Child runs get the signals that reach their parent; the row lives on if the parent ends at once. */
function relay(work: WorkChange[], before: RunState, payload: Record<string, unknown>): void {
  const signalType = String(payload['signalType']);
  if (signalType !== 'PAUSE' && signalType !== 'RESUME' && signalType !== 'CANCEL') return;
  if (!before.waits.values().some((wait) => wait.kind === 'child')) return;
  work.push({ op: 'insert', unit: unitKey({ kind: 'relay', signalType, signalId: String(payload['signalId']) }) });
}

function loopChanges(after: RunState, begun: ReadonlySet<string>): LoopChange[] {
  return [...begun].flatMap((stepId): LoopChange[] => {
    const loop = after.loops.get(stepId);
    if (!loop) return [];
    return [
      {
        op: 'begin',
        loop: loopKey(stepId, loop.attempt),
        next: loop.next,
        total: loop.count ?? 2_000_000_000,
        inFlight: loop.open.size,
        maxInFlight: loop.maxInFlight ?? 1,
        skip: [...loop.carried],
      },
    ];
  });
}
