import { availableParallelism } from 'node:os';
import Type, { type Static } from 'typebox';
import { AppError } from '../../contracts/errors.ts';
import { statedFailure } from '../define-tool.ts';
import { defaultEffectKey } from '../effect-key.ts';
import { LogBudget } from '../log-lines.ts';
import { abortError, refusedOutcome } from '../outcomes.ts';
import type { CallContext, CallPlace, EffectClass, ProposedAction, Tool, ToolError, ToolOutcome } from '../tool.ts';
import { nestingOf } from './json-nesting.ts';
import { type SandboxAnswer, SandboxPool } from './sandbox-pool.ts';
import { taskFrames } from './task-frames.ts';

const Variables = Type.Record(Type.String(), Type.Unknown());

const JavascriptInput = Type.Object(
  {
    code: Type.String({ minLength: 1 }),
    input: Type.Optional(Variables),
    args: Type.Optional(Variables),
  },
  { additionalProperties: false },
);
type JavascriptInput = Static<typeof JavascriptInput>;

export interface JavascriptToolOptions {
  /** The most that a program may run, also where its task has no limit of its own. */
  readonly maxTimeMs?: number;
  /** The memory of one program, at least 16 MB. */
  readonly memoryLimitBytes?: number;
  /** Programs that run at the same time, each in a thread; further ones wait. */
  readonly maxWorkers?: number;
  readonly maxResultLength?: number;
  readonly idleMs?: number;
}

const MEBIBYTE = 1024 * 1024;
/** Deeper values would be refused by the log. */
const MAX_NESTING = 150;
const OUT_OF_MEMORY = '{"memory":true}';

/** Runs JavaScript in a sandbox that has no files, network, clock to wait on or environment, only its input. */
export class JavascriptTool implements Tool {
  readonly kind = 'javascript';
  readonly input = JavascriptInput;
  readonly #maxTimeMs: number;
  readonly #memoryLimitBytes: number;
  readonly #pool: SandboxPool;

  constructor(options: JavascriptToolOptions = {}) {
    this.#maxTimeMs = options.maxTimeMs ?? 60_000;
    this.#memoryLimitBytes = options.memoryLimitBytes ?? 64 * MEBIBYTE;
    this.#pool = new SandboxPool({
      maxWorkers: options.maxWorkers ?? Math.min(8, availableParallelism()),
      memoryLimitBytes: this.#memoryLimitBytes,
      maxResultLength: options.maxResultLength ?? 16 * MEBIBYTE,
      idleMs: options.idleMs ?? 60_000,
    });
  }

  classify(): EffectClass {
    return 'compute';
  }

  propose(input: Record<string, unknown>): ProposedAction {
    const { input: variables = {}, args = {} } = input as JavascriptInput;
    const fields = [...new Set([...Object.keys(args), ...Object.keys(variables)])].sort();
    return { operation: 'run', target: 'a javascript program', fields };
  }

  effectKey(input: Record<string, unknown>, place: CallPlace): string {
    return defaultEffectKey('javascript', 'run', place, input);
  }

  async call(input: Record<string, unknown>, context: CallContext): Promise<ToolOutcome> {
    if (context.signal.aborted) return { status: 'error', error: abortError(context.signal) };
    const fields = input as JavascriptInput;
    const budget = new LogBudget(context.log);
    try {
      const answer = await this.#pool.run({
        code: fields.code,
        input: JSON.stringify({ ...fields.args, ...fields.input }),
        onLine: (stream, line) => budget.line(stream, line),
        signal: context.signal,
        maxTimeMs: this.#maxTimeMs,
      });
      return this.#outcome(answer, context.signal);
    } catch (error) {
      if (context.signal.aborted) return { status: 'error', error: abortError(context.signal) };
      const failure = statedFailure(error);
      if (failure) return { status: 'error', error: { retryable: false, ...failure, kind: 'javascript' } };
      if (!(error instanceof AppError)) throw error;
      return refusedOutcome('javascript', error);
    }
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  #outcome(answer: SandboxAnswer, signal: AbortSignal): ToolOutcome {
    if (answer.text === OUT_OF_MEMORY) return this.#outOfMemory();
    if (answer.text !== undefined) return textOutcome(answer.text);
    if (answer.error) return thrownOutcome(answer.error);
    if (answer.stopped) {
      if (signal.aborted) return { status: 'error', error: abortError(signal) };
      const message = `the program ran longer than the sandbox allows (${this.#maxTimeMs} ms)`;
      return refusedOutcome('timeout', new AppError('TASK_TIMEOUT', message));
    }
    if (answer.memory) return this.#outOfMemory();
    if (answer.pending) return failed('NEVER_SETTLED', 'the program waits for a promise that nothing can settle');
    return failed('SANDBOX_FAILED', `the sandbox ended: ${answer.failed}`, true);
  }

  #outOfMemory(): ToolOutcome {
    const size = Math.round(this.#memoryLimitBytes / MEBIBYTE);
    return failed('MEMORY_LIMIT', `the program needs more memory than its ${size} MiB`);
  }
}

function failed(code: string, message: string, retryable = false): ToolOutcome {
  const error: ToolError = { kind: 'javascript', code, message, retryable };
  return { status: 'error', error };
}

function textOutcome(text: string): ToolOutcome {
  // The text comes out of the sandbox: a program may have made it anything, so it is read with care.
  if (nestingOf(text) > MAX_NESTING) {
    return failed('RESULT_NOT_JSON', `the result is nested deeper than ${MAX_NESTING} levels`);
  }
  let answer: { result?: unknown; refused?: unknown; message?: unknown; error?: Record<string, unknown> };
  try {
    answer = JSON.parse(text);
  } catch {
    return failed('RESULT_NOT_JSON', 'the result is not JSON');
  }
  if (Object.hasOwn(answer, 'result')) return { status: 'ok', result: answer.result };
  if (answer.refused === 'RESULT_TOO_LARGE' || answer.refused === 'RESULT_NOT_JSON') {
    return failed(answer.refused, String(answer.message));
  }
  const { name = 'Error', message = '', stack = '' } = answer.error ?? {};
  return thrownOutcome({ name: String(name), message: String(message), stack: String(stack) });
}

function thrownOutcome(error: {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}): ToolOutcome {
  // What this engine calls an internal error, others call by the name that programs know.
  const name = error.name === 'InternalError' && error.message === 'stack overflow' ? 'RangeError' : error.name;
  const code = name === '' ? 'Error' : name.slice(0, 100);
  const message = error.message === '' ? code : error.message;
  return {
    status: 'error',
    error: { kind: 'javascript', code, message, retryable: false },
    meta: { traceback: taskFrames(error.stack) },
  };
}
