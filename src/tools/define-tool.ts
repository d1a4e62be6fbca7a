import { relative } from 'node:path';
import type { Static, TObject } from 'typebox';
import { AppError } from '../contracts/errors.ts';
import { jsonProblem } from '../lib/canonical-json.ts';
import { didYouMean } from '../lib/closest-name.ts';
import { defaultEffectKey } from './effect-key.ts';
import { abortError } from './outcomes.ts';
import type { CallContext, CallPlace, EffectClass, Reconciliation, Tool, ToolError, ToolOutcome } from './tool.ts';

/** The classes that the author of a tool can state; `undeclared` is for code that somebody else wrote. */
export type DeclaredEffect = Exclude<EffectClass, 'undeclared'>;

export interface ToolDefinition<Schema extends TObject> {
  /** What a playbook writes as `kind:`. */
  readonly kind: string;
  /** The fields of the task as a TypeBox object. Fields that it does not list are refused. */
  readonly input: Schema;
  /** What a call does to the world, always or by its fields. */
  readonly effect: DeclaredEffect | ((input: Static<Schema>) => DeclaredEffect);
  /**
   * Does the work and gives the result, which must be JSON. Throw `toolFailure(...)` for a failure that a policy can
   * match. A write that throws anything else counts as unknown: it may have happened.
   */
  run(input: Static<Schema>, context: CallContext): unknown;
  /** The key of a write; by default the place in the run and a digest of the fields. */
  key?(input: Static<Schema>, place: CallPlace): string;
  /** Whether a second call with the same key changes nothing more. */
  honoursKey?(input: Static<Schema>): boolean;
  /** Asks the destination what became of a write whose outcome was lost. */
  reconcile?(input: Static<Schema>, context: CallContext): Promise<Reconciliation>;
  /** The task that undoes a write, from the result as it was recorded: redacted, and cut where it was too large. */
  reverse?(input: Static<Schema>, result: unknown): Record<string, unknown> | undefined;
  /** What a policy and an approver see: the verb and the thing, never a value that may be secret. */
  describe?(input: Static<Schema>): { readonly operation: string; readonly target: string };
  close?(): Promise<void> | void;
}

/** A failure as the author of a tool states it. */
export type StatedFailure = Pick<ToolError, 'code' | 'message'> &
  Partial<Pick<ToolError, 'retryable' | 'retryAfterMs' | 'unknown'>>;

/** The error to throw from `run`. Without `unknown: true` it says that the write did not happen. */
export function toolFailure(failure: StatedFailure): AppError {
  return new AppError('TASK_FAILED', failure.message, { failure });
}

/** After an abort, how long a tool may take to end by itself before its call is given up. */
const ABORT_GRACE_MS = 1000;
const KIND = /^[a-z][a-z0-9_.-]{0,63}$/;

/** A tool of the user's own, for `runledger.config.ts`. */
export function defineTool<const Schema extends TObject>(definition: ToolDefinition<Schema>): Tool {
  checkDefinition(definition);
  const { kind, key, honoursKey, reconcile, reverse, close } = definition;
  const typed = (input: Record<string, unknown>): Static<Schema> => input as Static<Schema>;
  const classify = (input: Record<string, unknown>): EffectClass => {
    if (typeof definition.effect !== 'function') return definition.effect;
    try {
      const said = definition.effect(typed(input));
      if (EFFECTS.includes(said)) return said;
    } catch {}
    // The strictest class: what cannot be classified must not slip past the gate of writes.
    return 'write';
  };
  return {
    kind,
    input: { ...definition.input, additionalProperties: false } as Schema,
    classify,
    propose: (input) => ({
      ...(definition.describe?.(typed(input)) ?? { operation: classify(input), target: kind }),
      fields: Object.keys(input).sort(),
    }),
    effectKey: (input, place) => key?.(typed(input), place) ?? defaultEffectKey(kind, kind, place, input),
    call: async (input, context) => {
      const isWrite = (context.effectClass ?? classify(input)) === 'write';
      return callDefinition(kind, isWrite, context, async () => definition.run(typed(input), context));
    },
    ...(honoursKey ? { honoursKey: (input) => honoursKey(typed(input)) } : {}),
    ...(reconcile ? { reconcile: (input, context) => reconcile(typed(input), context) } : {}),
    ...(reverse ? { reverse: (input, result) => reverse(typed(input), result) } : {}),
    ...(close ? { close: async () => close() } : {}),
  };
}

const EFFECTS: readonly unknown[] = ['compute', 'read', 'write'] satisfies DeclaredEffect[];
const HOOKS = ['key', 'honoursKey', 'reconcile', 'reverse', 'describe', 'close'] as const;
const FIELDS: readonly string[] = ['kind', 'input', 'effect', 'run', ...HOOKS];

/** Configurations are often written without a type checker: a slip here could drop the receipt of a write. */
function checkDefinition(definition: unknown): void {
  if (typeof definition !== 'object' || definition === null)
    throw new AppError('CONFIG_INVALID', 'defineTool needs an object with kind, input, effect and run');
  const { kind, input, effect, run, ...rest } = definition as Record<string, unknown>;
  if (typeof kind !== 'string' || !KIND.test(kind)) {
    throw new AppError('CONFIG_INVALID', `kind ${JSON.stringify(kind)} of a tool must look like 'my_tool'`, { kind });
  }
  const wrong = (message: string): AppError => new AppError('CONFIG_INVALID', message, { kind });
  const schema = input as { type?: unknown; properties?: unknown } | undefined;
  if (schema?.type !== 'object' || typeof schema.properties !== 'object')
    throw wrong(`input of the tool '${kind}' must be a Type.Object`);
  if (typeof run !== 'function') throw wrong(`the tool '${kind}' has no run`);
  if (typeof effect !== 'function' && !EFFECTS.includes(effect)) {
    const given = effect === undefined ? 'is missing; it' : `is ${JSON.stringify(effect) ?? typeof effect}, but`;
    throw wrong(`effect of the tool '${kind}' ${given} must be ${EFFECTS.join(', ')} or a function that gives one`);
  }
  for (const [field, value] of Object.entries(rest)) {
    if (!FIELDS.includes(field))
      throw wrong(`the tool '${kind}' has an unknown field '${field}'${didYouMean(field, FIELDS)}`);
    if (value !== undefined && typeof value !== 'function')
      throw wrong(`${field} of the tool '${kind}' must be a function`);
  }
}

async function callDefinition(
  kind: string,
  isWrite: boolean,
  context: CallContext,
  run: () => Promise<unknown>,
): Promise<ToolOutcome> {
  const { signal } = context;
  if (signal.aborted) return { status: 'error', error: abortError(signal) };
  const aborted = (): ToolOutcome => ({
    status: 'error',
    error: { ...abortError(signal), ...(isWrite ? { unknown: true } : {}) },
  });
  try {
    const ended = await orGivenUp(run(), signal);
    return ended ? resultOutcome(kind, isWrite, ended.value) : aborted();
  } catch (error) {
    const failure = statedFailure(error);
    if (failure) return { status: 'error', error: { retryable: false, ...failure, kind } };
    if (signal.aborted) return aborted();
    return { status: 'error', error: { ...thrownError(kind, error), ...(isWrite ? { unknown: true } : {}) } };
  }
}

/** What `work` gives, or undefined when it goes on for too long after the abort. */
async function orGivenUp<T>(work: Promise<T>, signal: AbortSignal): Promise<{ value: T } | undefined> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = (): void => {};
  const givenUp = new Promise<undefined>((resolve) => {
    onAbort = () => {
      timer = setTimeout(() => resolve(undefined), ABORT_GRACE_MS);
    };
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([work.then((value) => ({ value })), givenUp]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

function resultOutcome(kind: string, isWrite: boolean, value: unknown): ToolOutcome {
  const result = value === undefined ? null : value;
  const problem = jsonProblem(result);
  if (!problem) return { status: 'ok', result };
  const message = `the result of ${kind}${problem.path === '' ? '' : ` at ${problem.path}`} is not JSON: ${problem.message}`;
  const error: ToolError = { kind, code: 'RESULT_NOT_JSON', message, retryable: false };
  return { status: 'error', error: { ...error, ...(isWrite ? { unknown: true } : {}) } };
}

/** What `toolFailure` said, if the error is one of its. */
export function statedFailure(error: unknown): StatedFailure | undefined {
  return error instanceof AppError && error.code === 'TASK_FAILED'
    ? (error.details['failure'] as StatedFailure | undefined)
    : undefined;
}

function thrownError(kind: string, error: unknown): ToolError {
  if (error instanceof AppError) {
    return { kind, code: error.code, message: error.message, retryable: error.retryable };
  }
  if (!(error instanceof Error)) return { kind, code: 'TASK_FAILED', message: String(error), retryable: false };
  const { code } = error as { code?: unknown };
  const message = `${error.message}${placeOf(error)}`;
  return { kind, code: typeof code === 'string' ? code : error.name, message, retryable: false };
}

/** Where in the author's own files it was thrown. Paths beyond the folder of the project would show how the host is built. */
function placeOf({ stack = '' }: Error): string {
  for (const line of stack.split('\n')) {
    const [, path, row] = /^\s+at .*?(?:file:\/\/)?(\/[^?():]+)(?:\?[^:)]*)?:(\d+):\d+\)?$/.exec(line) ?? [];
    if (path === undefined || path.includes('/node_modules/')) continue;
    const inside = relative(process.cwd(), path);
    if (!inside.startsWith('..')) return ` (${inside}:${row})`;
  }
  return '';
}
