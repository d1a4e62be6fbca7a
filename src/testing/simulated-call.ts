import { AppError } from '../contracts/errors.ts';
import type { Task } from '../contracts/plan.ts';
import type { ErrorInfo } from '../contracts/values.ts';
import type { WaitKind, WaitOutcome } from '../kernel/commands.ts';
import type { JsonObject } from '../kernel/payload-reader.ts';
import { renderFields } from '../kernel/pipeline.ts';
import type { PipelineContext, TaskOutcome } from '../kernel/pipeline-scope.ts';
import type { PipelineState } from '../kernel/pipeline-state.ts';
import { mergeInput, renderWorkbook, workbookTask } from '../kernel/tool-fields.ts';

/** One call of a tool, as a script sees it. */
export interface SimulatedCall {
  readonly stepId: string;
  readonly step: string;
  readonly task: string;
  /** The tool that is called; for a task of the workbook, that one's. */
  readonly kind: string;
  readonly run: number;
  readonly attempt: number;
  readonly logicalAttempt: number;
  readonly index?: number;
  readonly item?: unknown;
  /** The tool's fields, rendered, with the step's `input` merged into theirs. */
  readonly fields: JsonObject;
  readonly now: string;
  /** The wait that this call asked for has ended like this. */
  readonly woken?: { readonly outcome: WaitOutcome; readonly result?: unknown };
}

/** What a call does: a result, an error, or a wait after which it is made again. `ms` is how long it takes. */
export type SimulatedOutcome =
  | { readonly ok: unknown; readonly ms?: number }
  | { readonly error: Partial<ErrorInfo>; readonly ms?: number; readonly details?: Record<string, unknown> }
  | {
      readonly wait: { readonly kind: WaitKind; readonly outcome: WaitOutcome; readonly result?: unknown };
      readonly ms?: number;
    };

/** One answer, a list of answers for one call after the other, or a function of the call. */
export type Script =
  | SimulatedOutcome
  | readonly SimulatedOutcome[]
  | ((call: SimulatedCall) => SimulatedOutcome | undefined);

/** What a script said, in the words of the language. */
export function taskOutcome(outcome: Exclude<SimulatedOutcome, { wait: unknown }>): TaskOutcome {
  if ('ok' in outcome) return { status: 'ok', result: { value: outcome.ok } };
  const { category = 'tool', code = 'SIMULATED', message = 'The script said so.', retryable = true } = outcome.error;
  return { status: 'error', error: { kind: category, code, message, retryable }, ...outcome.details };
}

/** The task that is called in the end, which may stand in the workbook, and what it gets. */
export function calledTask(
  context: PipelineContext,
  task: Task,
  state: PipelineState,
): { readonly called: Task; readonly fields: JsonObject } {
  const rendered = known(renderFields(context, state, {}));
  const fields = mergeInput(rendered.fields, rendered.input);
  if (task.kind !== 'workbook') return { called: task, fields };
  const named = workbookTask(context.plan, fields);
  return { called: named, fields: known(renderWorkbook(context, state, { caller: task, named, fields }, {})).fields };
}

function known<T extends object>(answer: T | { readonly need: readonly string[] }): T {
  if ('need' in answer) throw new AppError('INTERNAL', 'The simulator keeps every value in the log.');
  return answer;
}
