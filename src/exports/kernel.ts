export { canonicalView } from '../kernel/canonical-view.ts';
export type { Command, Decision, EventDraft, Settled } from '../kernel/commands.ts';
export { engineState } from '../kernel/compile-plan.ts';
export { decide } from '../kernel/decide.ts';
export { detectNonContiguous, evolve, fold, foldWithReport } from '../kernel/evolve.ts';
export { compileTemplate } from '../kernel/expressions/compile-template.ts';
export { checkTransition, ProducerGuard } from '../kernel/guard.ts';
export { ingest } from '../kernel/ingest.ts';
export {
  loopsToEnd,
  mustStop,
  mustStopStep,
  openWork,
  resolveLoop,
  type WorkUnit,
  workOf,
} from '../kernel/open-work.ts';
export { afterOutcome, nextInPipeline, renderFields } from '../kernel/pipeline.ts';
export { compilePipeline } from '../kernel/pipeline-plan.ts';
export { resumePipeline } from '../kernel/pipeline-state.ts';
export { type ReplayDifference, type ReplayResult, replay } from '../kernel/replay.ts';
export { initialState, type RunState } from '../kernel/state.ts';
export { fromJson, toJson } from '../kernel/state-json.ts';
export { runWord, stepWord, substatus } from '../kernel/status-words.ts';
export { stepOutput } from '../kernel/step-output.ts';
export { toSnapshot } from '../kernel/to-snapshot.ts';
export { mergeInput, renderWorkbook, workbookTask } from '../kernel/tool-fields.ts';
export { upcastV1 } from '../kernel/upcast.ts';
