import { AppError } from '../contracts/errors.ts';
import type { Plan, Task } from '../contracts/plan.ts';
import { type CompiledValue, compileValue } from './expressions/compile-value.ts';
import { NeedValues } from './expressions/evaluation.ts';
import { isObject, type JsonObject } from './payload-reader.ts';
import { type PipelineContext, PipelineScopes } from './pipeline-scope.ts';
import type { PipelineState } from './pipeline-state.ts';

/** What a tool gets: its rendered fields, with the step's `input` below its own. */
export function mergeInput(fields: JsonObject, input: unknown): JsonObject {
  if (!isObject(input)) return fields;
  const own = isObject(fields['input']) ? fields['input'] : {};
  return { ...fields, input: { ...input, ...own } };
}

/** The task of the workbook that the rendered fields of a `workbook` task name. */
export function workbookTask(plan: Plan, fields: JsonObject): Task {
  const name = String(fields['name']);
  const named = Object.hasOwn(plan.workbook, name) ? plan.workbook[name] : undefined;
  if (!named) throw new AppError('INVALID_STEP_SCHEMA', `The workbook has no task '${name}'.`);
  return named;
}

/** The fields of a workbook's task where it is used: its templates see the caller's names, and those of its input. */
export function renderWorkbook(
  context: PipelineContext,
  state: PipelineState,
  { caller, named, fields }: { readonly caller: Task; readonly named: Task; readonly fields: JsonObject },
  keychain: JsonObject,
): { readonly fields: JsonObject } | { readonly need: readonly string[] } {
  const input = isObject(fields['input']) ? fields['input'] : {};
  const scopes = new PipelineScopes(context);
  const scope = scopes.scope(state, caller, undefined, { ...input, input, keychain });
  try {
    const own = compiled(context.plan, named).evaluate(scope, scopes.options) as JsonObject;
    return { fields: mergeInput(withoutBlanks(own), input) };
  } catch (thrown) {
    if (thrown instanceof NeedValues) return { need: thrown.refs };
    throw thrown;
  }
}

/** A value that stands beside the task, such as an entry of the keychain, as the task's own fields would be rendered. */
export function renderBeside(
  context: PipelineContext,
  state: PipelineState,
  source: unknown,
  keychain: JsonObject,
): { readonly value: unknown } | { readonly need: readonly string[] } {
  const scopes = new PipelineScopes(context);
  try {
    return {
      value: compileValue(source).evaluate(scopes.scope(state, undefined, undefined, { keychain }), scopes.options),
    };
  } catch (thrown) {
    if (thrown instanceof NeedValues) return { need: thrown.refs };
    throw thrown;
  }
}

/** `input: {city: null}` in a workbook declares what the caller gives, and does not take it away. */
function withoutBlanks(fields: JsonObject): JsonObject {
  const { input } = fields;
  if (!isObject(input)) return fields;
  return { ...fields, input: Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null)) };
}

const COMPILED = new WeakMap<Task, CompiledValue>();

function compiled(plan: Plan, task: Task): CompiledValue {
  const known = COMPILED.get(task);
  if (known) return known;
  const name = Object.keys(plan.workbook).find((key) => plan.workbook[key] === task) ?? task.name;
  const value = compileValue(task.with, `/workbook/${name}/with`);
  COMPILED.set(task, value);
  return value;
}
