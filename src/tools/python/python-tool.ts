import { availableParallelism } from 'node:os';
import { delimiter, join } from 'node:path';
import Type, { type Static } from 'typebox';
import { AppError } from '../../contracts/errors.ts';
import { statedFailure } from '../define-tool.ts';
import { defaultEffectKey } from '../effect-key.ts';
import { type HostEnvironment, minimalEnvironment } from '../host-environment.ts';
import { abortError, inputProblem, refusedOutcome } from '../outcomes.ts';
import type { CallContext, CallPlace, EffectClass, ProposedAction, Tool, ToolError, ToolOutcome } from '../tool.ts';
import { encodeFrame } from './frames.ts';
import type { InterpreterEnd } from './interpreter.ts';
import { PythonPool } from './python-pool.ts';
import { LOST_CHANNEL_STATUS, runTask } from './run-task.ts';

const Variables = Type.Record(Type.String(), Type.Unknown());
const ImportFrom = Type.Object({ from: Type.String(), import: Type.String() }, { additionalProperties: false });

const PythonInput = Type.Object(
  {
    code: Type.String({ minLength: 1 }),
    input: Type.Optional(Variables),
    args: Type.Optional(Variables),
    /** Modules by name, or the name in the program -> the module. */
    libs: Type.Optional(
      Type.Union([
        Type.Array(Type.String({ minLength: 1 })),
        Type.Record(Type.String(), Type.Union([Type.String({ minLength: 1 }), ImportFrom])),
      ]),
    ),
    auth: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);
type PythonInput = Static<typeof PythonInput>;

export interface PythonToolOptions {
  /** The interpreter; by default that of the active virtual environment, else `python3`. */
  readonly python?: string;
  /** The environment of this process; programs get only what they need of it. */
  readonly hostEnvironment?: HostEnvironment;
  /** Added to the environment of every program. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Folders from which programs may import, beside their environment's own. */
  readonly modulePaths?: readonly string[];
  /** Modules that are imported once and shared by all programs. They must bear to be forked after their import. */
  readonly preload?: readonly string[];
  /** Address space of one program (RLIMIT_AS); not enforced on macOS. */
  readonly memoryLimitBytes?: number;
  readonly maxProcesses?: number;
  readonly spareProcesses?: number;
  readonly idleMs?: number;
  readonly maxResultBytes?: number;
}

const MEBIBYTE = 1024 * 1024;
/** Of the host's environment, what finds an interpreter and its modules. */
const PYTHON_VARIABLES = ['PYTHONPATH', 'PYENV_ROOT', 'PYENV_VERSION'] as const;
const DUNDER = /^__.*__$/;

/**
 * Runs Python, each task in a process of its own that is forked from a warm interpreter. It is isolation from other tasks,
 * not a sandbox: a program can do what the worker's user can.
 */
export class PythonTool implements Tool {
  readonly kind = 'python';
  readonly input = PythonInput;
  readonly #options: PythonToolOptions;
  readonly #maxResultBytes: number;
  readonly #pool: PythonPool;

  constructor(options: PythonToolOptions = {}) {
    this.#options = options;
    this.#maxResultBytes = options.maxResultBytes ?? 64 * MEBIBYTE;
    this.#pool = new PythonPool({
      ...interpreterOf(options),
      cwd: options.cwd ?? process.cwd(),
      preload: options.preload ?? [],
      maxProcesses: options.maxProcesses ?? Math.max(4, 2 * availableParallelism()),
      spare: options.spareProcesses ?? 2,
      idleMs: options.idleMs ?? 60_000,
    });
  }

  classify(): EffectClass {
    return 'undeclared';
  }

  propose(input: Record<string, unknown>): ProposedAction {
    const { input: variables = {}, args = {} } = input as PythonInput;
    const fields = [...new Set([...Object.keys(args), ...Object.keys(variables)])].sort();
    return { operation: 'run', target: 'a python program', fields };
  }

  effectKey(input: Record<string, unknown>, place: CallPlace): string {
    return defaultEffectKey('python', 'run', place, input);
  }

  async call(input: Record<string, unknown>, context: CallContext): Promise<ToolOutcome> {
    const { signal } = context;
    if (signal.aborted) return { status: 'error', error: abortError(signal) };
    try {
      const request = await this.#request(input as PythonInput, context);
      const interpreter = await this.#pool.acquire(signal);
      const end = await runTask(this.#pool, interpreter, request, this.#maxResultBytes + MEBIBYTE, context);
      const lost = context.effectClass === 'write' ? ({ unknown: true } as const) : {};
      if ('aborted' in end) return { status: 'error', error: { ...abortError(signal), ...lost } };
      if ('died' in end) return { status: 'error', error: { ...deathError(end.died), ...lost } };
      if (end.answer === 'too large') {
        const message = `the result has more than ${this.#maxResultBytes} bytes`;
        return { status: 'error', error: { kind: 'python', code: 'RESULT_TOO_LARGE', message, retryable: false } };
      }
      return answerOutcome(JSON.parse(end.answer.toString('utf8')) as Answer);
    } catch (error) {
      return notStartedOutcome(error, signal);
    }
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  async #request(fields: PythonInput, context: CallContext): Promise<Buffer> {
    const variables: Record<string, unknown> = { ...fields.args, ...fields.input };
    if (fields.auth !== undefined) variables['auth'] ??= await context.secret(fields.auth);
    const reserved = Object.keys(variables).find((name) => DUNDER.test(name));
    if (reserved !== undefined) throw inputProblem(`\`input\` of python must not set \`${reserved}\``);
    const { libs = {} } = fields;
    return encodeFrame({
      code: fields.code,
      variables,
      libs: Array.isArray(libs) ? Object.fromEntries(libs.map((name) => [name, name])) : libs,
      env: context.idempotencyKey === undefined ? {} : { RUNLEDGER_IDEMPOTENCY_KEY: context.idempotencyKey },
      memory_bytes: this.#options.memoryLimitBytes ?? null,
      max_result_bytes: this.#maxResultBytes,
    });
  }
}

function interpreterOf(options: PythonToolOptions): { python: string; env: Record<string, string> } {
  const host = options.hostEnvironment ?? {};
  const env: Record<string, string> = { ...minimalEnvironment(host) };
  for (const name of PYTHON_VARIABLES) if (host[name]) env[name] = host[name];
  const venv = options.python === undefined ? host['VIRTUAL_ENV'] : undefined;
  if (venv) {
    env['VIRTUAL_ENV'] = venv;
    env['PATH'] = `${join(venv, 'bin')}${delimiter}${env['PATH']}`;
  }
  if (options.modulePaths?.length) {
    env['PYTHONPATH'] = [...options.modulePaths, ...(env['PYTHONPATH'] ? [env['PYTHONPATH']] : [])].join(delimiter);
  }
  // Apple's frameworks otherwise abort a process that was forked; the interpreter has only one thread when it forks.
  env['OBJC_DISABLE_INITIALIZE_FORK_SAFETY'] = 'YES';
  return {
    python: options.python ?? (venv ? join(venv, 'bin', 'python') : 'python3'),
    env: { ...env, ...options.env },
  };
}

type Answer =
  | { readonly result: unknown }
  | { readonly refused: string; readonly message: string }
  | {
      readonly exception: string;
      readonly module: string;
      readonly message: string;
      readonly retryable: boolean;
      readonly traceback: readonly { readonly line: number; readonly code: string }[];
      readonly causes: readonly unknown[];
    };

function answerOutcome(answer: Answer): ToolOutcome {
  if ('result' in answer) return { status: 'ok', result: answer.result };
  if ('refused' in answer) {
    const { refused: code, message } = answer;
    return { status: 'error', error: { kind: 'python', code, message, retryable: false } };
  }
  const { exception, module, message, retryable, traceback, causes } = answer;
  return {
    status: 'error',
    error: { kind: 'python', code: exception, message: `${message}${placeIn(traceback)}`, retryable },
    py: { exception_type: exception },
    meta: { exception_module: module, traceback, ...(causes.length > 0 ? { causes } : {}) },
  };
}

/** Where in the author's own code it happened: whoever reads the message need not look for it in the log. */
function placeIn(traceback: Extract<Answer, { exception: string }>['traceback']): string {
  const last = traceback.at(-1);
  if (last === undefined) return '';
  return ` (line ${last.line}${last.code === '' ? '' : `: ${last.code}`})`;
}

function deathError(end: InterpreterEnd): ToolError {
  if (end.signal !== undefined) {
    const message = `the interpreter was ended by ${end.signal} before there was a result`;
    return { kind: 'python', code: 'PYTHON_DIED', message, retryable: true };
  }
  const message =
    end.code === LOST_CHANNEL_STATUS
      ? 'the program closed the channel over which results are given'
      : `the program ended its interpreter with status ${end.code} before there was a result`;
  return { kind: 'python', code: 'PYTHON_EXITED', message, retryable: false };
}

/** What went wrong before the program began. */
function notStartedOutcome(error: unknown, signal: AbortSignal): ToolOutcome {
  if (signal.aborted) return { status: 'error', error: abortError(signal) };
  const failure = statedFailure(error);
  if (failure) return { status: 'error', error: { retryable: false, ...failure, kind: 'python' } };
  if (!(error instanceof AppError)) throw error;
  return refusedOutcome(error.code === 'INVALID_STEP_SCHEMA' ? 'input' : 'python', error);
}
