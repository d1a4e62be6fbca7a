import { CATALOGUE, type EventRow, type EventType } from '../contracts/catalogue.ts';
import { isTerminal } from '../contracts/states.ts';
import { FLOW_REDUCERS, takenUp } from './reduce-flow.ts';
import { LOOP_REDUCERS } from './reduce-loop.ts';
import { RUN_REDUCERS } from './reduce-run.ts';
import { isDuplicate, SEEN, STEP_REDUCERS } from './reduce-step.ts';
import { findStep } from './step-state.ts';
import { type KernelEvent, type Reducer, refuse, type Work } from './work.ts';

const noEffect: Reducer = () => {};

/** What each type does to the state. The compiler refuses a catalogue that this table does not cover. */
const REDUCERS: { readonly [T in EventType]: Reducer } = {
  ...RUN_REDUCERS,
  ...STEP_REDUCERS,
  ...LOOP_REDUCERS,
  ...FLOW_REDUCERS,
  PlaybookProcessed: noEffect,
  PayloadErased: noEffect,
  AlertRaised: noEffect,
  TaskStarted: takenUp,
  TaskAttemptStarted: takenUp,
  TaskAttemptDone: takenUp,
  TaskAttemptFailed: takenUp,
  TaskDone: takenUp,
  TaskFailed: takenUp,
  PolicyTaskEvaluated: noEffect,
  PolicyEffectEvaluated: noEffect,
  ResultStored: noEffect,
  ResultManifestUpdated: noEffect,
  EffectAttempted: noEffect,
  EffectSucceeded: noEffect,
  EffectFailed: noEffect,
  EffectUnknown: noEffect,
};

const RULES = new Map<string, { readonly row: EventRow; readonly reduce: Reducer }>(
  Object.entries(CATALOGUE).map(([type, row]) => [type, { row, reduce: REDUCERS[type as EventType] }]),
);

/** The one reducer. Everything that turns events into state ends here. */
export function apply(work: Work, event: KernelEvent): void {
  const rule = RULES.get(event.eventType);
  // A type from a newer version is opaque: it moves the watermark, which is the caller's, and nothing else.
  if (rule === undefined) return;
  const { status } = work.draft.run;
  if (status !== null && isTerminal(status) && !rule.row.afterTerminal) {
    if (!isRepeated(work, event)) refuse(work, event, status, attemptedState(rule.row, event));
    return;
  }
  rule.reduce(work, event);
}

/** Whether a late event is one that was applied before the run ended. */
function isRepeated(work: Work, event: KernelEvent): boolean {
  const { eventType, logicalAttemptId } = event;
  if (work.draft.run.seen.includes(`${eventType}:${logicalAttemptId}`)) return true;
  const bit = SEEN[eventType as keyof typeof SEEN];
  const step = event.stepId === undefined ? undefined : findStep(work.draft, event.stepId);
  return bit !== undefined && step !== undefined && isDuplicate(step, logicalAttemptId, bit);
}

function attemptedState(row: EventRow, event: KernelEvent): string {
  return row.runMove?.to ?? row.stepMove?.to ?? event.eventType;
}
