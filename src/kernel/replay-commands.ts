import type { RunEventRecord } from '../contracts/envelope.ts';
import type { Command, TimelessCommand } from './commands.ts';
import { isLoopComplete } from './loops.ts';
import { isObject, type JsonObject, objectOf } from './payload-reader.ts';
import type { RunState } from './state.ts';

/** The command whose decision begins at this place of the log; undefined for a fact that a worker wrote by itself. */
export function commandAt(
  log: readonly RunEventRecord[],
  at: number,
  state: RunState,
): { readonly command: Command } | undefined {
  const event = log[at] as RunEventRecord;
  const command = rebuild(log, at, event, objectOf(event.payload), state);
  return command && { command: { ...command, now: event.emittedAt } as Command };
}

/** Recorded payloads were checked when they were written: they have the fields that the commands take. */
function rebuild(
  log: readonly RunEventRecord[],
  at: number,
  event: RunEventRecord,
  said: JsonObject,
  state: RunState,
): TimelessCommand | undefined {
  const fields = fieldsOf(log, at, event, said, state);
  return fields as unknown as TimelessCommand | undefined;
}

type Fields = { readonly type: Command['type'] } & JsonObject;

function fieldsOf(
  log: readonly RunEventRecord[],
  at: number,
  event: RunEventRecord,
  said: JsonObject,
  state: RunState,
): Fields | undefined {
  const { stepId = '', logicalAttemptId: attempt, entity = '', engineAttemptId: engineAttempt } = event;
  switch (event.eventType) {
    case 'PlaybookExecutionRequested':
      // What a retry carried comes from another log; here it is a fact.
      if (said['retryOf'] !== undefined) return undefined;
      return { type: 'request', ...said, admission: objectOf(log[at + 1]?.payload) };
    case 'RunQueued':
      return { type: 'queue', ...said };
    case 'RunApproved':
      return { type: 'approve', ...said };
    case 'RunStarted': {
      const delayed = log.slice(at, at + 4).find(({ eventType }) => eventType === 'StepDelayed');
      const notBefore = objectOf(delayed?.payload)['until'];
      return { type: 'start', started: said, ...(notBefore === undefined ? {} : { notBefore }) };
    }
    case 'StepCompleted':
    case 'StepFailed': {
      const abandoned = event.eventType === 'StepFailed' ? abandonedWith(log, at) : undefined;
      if (abandoned) return { type: 'failRun', error: abandoned, abandon: true };
      const settled = { status: event.eventType === 'StepCompleted' ? 'completed' : 'failed', ...said };
      return { type: 'stepSettled', stepId, attempt, engineAttempt, settled, ...tasksSet(log, at, stepId) };
    }
    case 'LoopStarted': {
      const { list, count } = said;
      return {
        type: 'loopResolved',
        stepId,
        attempt,
        ...(list ? { list } : {}),
        ...(count === undefined ? {} : { count }),
      };
    }
    case 'LoopDone': {
      const loop = state.loops.get(stepId);
      const isDone = loop !== undefined && isLoopComplete(loop) && isObject(said['result']);
      return isDone ? { type: 'loopSettled', stepId, attempt, result: said['result'] } : { type: 'tick' };
    }
    case 'WaitStarted':
      return { type: 'park', stepId, attempt, ...indexOf(entity), ...said };
    case 'WaitEnded': {
      if (said['outcome'] === 'cancelled') return endedWith(log, at, state);
      const { kind: _kind, ...rest } = said;
      return { type: 'waitEnded', entity, ...rest };
    }
    case 'SignalAccepted':
      return { type: 'signal', ...said };
    case 'SignalRejected': {
      const { rejectedBy, code, reason, ...rest } = said;
      return { type: 'signal', ...rest, ...(rejectedBy === 'authorization' ? { denied: { code, reason } } : {}) };
    }
    case 'RunFailed':
      return { type: 'failRun', error: said['error'] };
    // What a decision leads to, standing alone: it followed from the state by itself.
    case 'NextEvaluated':
    case 'RunCompleted':
    case 'RunCancelled':
      return { type: 'tick' };
    default:
      return undefined;
  }
}

/** A wait that was closed because its step ended: the end of the step is the command. */
function endedWith(log: readonly RunEventRecord[], at: number, state: RunState): Fields | undefined {
  for (let i = at + 1; i < log.length; i++) {
    const event = log[i] as RunEventRecord;
    if (event.eventType === 'WaitEnded') continue;
    if (event.eventType !== 'StepFailed' && event.eventType !== 'StepCompleted') return undefined;
    return fieldsOf(log, i, event, objectOf(event.payload), state);
  }
  return undefined;
}

/** The error of a run that was given up with everything open in it: no step is its cause. */
function abandonedWith(log: readonly RunEventRecord[], at: number): unknown {
  for (let i = at + 1; i < log.length; i++) {
    const { eventType, payload } = log[i] as RunEventRecord;
    if (eventType === 'RunFailed')
      return objectOf(payload?.['rootCause'])['stepId'] === undefined ? payload?.['error'] : undefined;
    if (!ABANDONED.has(eventType)) return undefined;
  }
  return undefined;
}

const ABANDONED: ReadonlySet<string> = new Set(['WaitEnded', 'LoopIterationFailed', 'StepFailed', 'StepSkipped']);

/** What the tasks wrote to ctx stands in the patch behind the end of the step. */
function tasksSet(log: readonly RunEventRecord[], at: number, stepId: string): { set?: JsonObject } {
  const patch = log[at + 1];
  if (patch?.eventType !== 'CtxPatched' || patch.stepId !== stepId) return {};
  const { set, source } = objectOf(patch.payload);
  return source === 'task' && isObject(set) ? { set } : {};
}

function indexOf(entity: string): { index?: number } {
  const match = /\/(\d+)\/[^/]+$/.exec(entity);
  return match ? { index: Number(match[1]) } : {};
}
