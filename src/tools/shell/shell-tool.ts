import { stat } from 'node:fs/promises';
import { constants } from 'node:os';
import { resolve } from 'node:path';
import Type, { type Static } from 'typebox';
import { AppError } from '../../contracts/errors.ts';
import { defaultEffectKey } from '../effect-key.ts';
import { type HostEnvironment, minimalEnvironment } from '../host-environment.ts';
import { LineSplitter, LogBudget } from '../log-lines.ts';
import { OrphanGuard } from '../orphan-guard.ts';
import { abortError, inputProblem, refusedOutcome } from '../outcomes.ts';
import type { CallContext, CallPlace, EffectClass, ProposedAction, Tool, ToolError, ToolOutcome } from '../tool.ts';
import { BoundedOutput } from './bounded-output.ts';
import { OutputPipes } from './output-pipes.ts';
import { type CommandEnd, runCommand } from './run-command.ts';

const Value = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]);

const ShellInput = Type.Object(
  {
    cmds: Type.Union([Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })]),
    env: Type.Optional(Type.Record(Type.String(), Value)),
    cwd: Type.Optional(Type.String({ minLength: 1 })),
    continue_on_error: Type.Optional(Type.Boolean()),
    input: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { additionalProperties: false },
);
type ShellInput = Static<typeof ShellInput>;

export interface ShellToolOptions {
  /** The environment of this process; commands get only what programs need of it. */
  readonly hostEnvironment?: HostEnvironment;
  /** Added to the environment of every command. */
  readonly env?: Readonly<Record<string, string>>;
  /** The working folder where a task names none, and the base of one that is relative. */
  readonly cwd?: string;
  /** How long a group may take to end by itself after an abort. */
  readonly killGraceMs?: number;
  /** How much of stdout and of stderr becomes part of the result. */
  readonly maxOutputBytes?: number;
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Runs commands with /bin/sh, one after the other. `input` and `env` become environment variables, which is the safe way
 * to hand over data: a value that is rendered into a command is read by the shell.
 */
export class ShellTool implements Tool {
  readonly kind = 'shell';
  readonly input = ShellInput;
  readonly #options: Required<ShellToolOptions>;
  #processes: { readonly pipes: OutputPipes; readonly guard: OrphanGuard } | undefined;

  constructor(options: ShellToolOptions = {}) {
    this.#options = {
      hostEnvironment: {},
      env: {},
      cwd: process.cwd(),
      killGraceMs: 2000,
      maxOutputBytes: 1024 * 1024,
      ...options,
    };
  }

  classify(): EffectClass {
    return 'undeclared';
  }

  propose(input: Record<string, unknown>): ProposedAction {
    const { cmds, env = {}, input: variables = {} } = input as ShellInput;
    const count = typeof cmds === 'string' ? 1 : cmds.length;
    return {
      operation: 'run',
      target: `${count} shell ${count === 1 ? 'command' : 'commands'}`,
      fields: [...new Set([...Object.keys(variables), ...Object.keys(env)])].sort(),
    };
  }

  effectKey(input: Record<string, unknown>, place: CallPlace): string {
    return defaultEffectKey('shell', 'run', place, input);
  }

  async call(input: Record<string, unknown>, context: CallContext): Promise<ToolOutcome> {
    if (context.signal.aborted) return { status: 'error', error: abortError(context.signal) };
    try {
      if (process.platform === 'win32') {
        throw new AppError('TOOL_UNAVAILABLE', 'the shell tool needs Linux or macOS; on Windows use WSL');
      }
      const fields = input as ShellInput;
      const cwd = await this.#folder(fields.cwd);
      return await this.#run(fields, cwd, this.#environment(fields, context), context);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      return refusedOutcome(error.code === 'INVALID_STEP_SCHEMA' ? 'input' : 'shell', error);
    }
  }

  async close(): Promise<void> {
    const processes = this.#processes;
    this.#processes = undefined;
    if (!processes) return;
    processes.pipes.close();
    await processes.guard.close();
  }

  async #folder(cwd: string | undefined): Promise<string> {
    const folder = resolve(this.#options.cwd, cwd ?? '.');
    const found = await stat(folder).catch(() => undefined);
    if (!found?.isDirectory()) throw inputProblem('`cwd` of shell is not a folder on this worker');
    return folder;
  }

  #environment(fields: ShellInput, context: CallContext): Record<string, string> {
    const env = { ...minimalEnvironment(this.#options.hostEnvironment), ...this.#options.env };
    if (context.idempotencyKey !== undefined) env['RUNLEDGER_IDEMPOTENCY_KEY'] = context.idempotencyKey;
    for (const [name, value] of Object.entries(fields.input ?? {})) {
      if (NAME.test(name) && value !== null) env[name] = typeof value === 'string' ? value : JSON.stringify(value);
    }
    for (const [name, value] of Object.entries(fields.env ?? {})) {
      if (!NAME.test(name)) throw inputProblem('`env` of shell has a name that no variable can have');
      if (value === null) delete env[name];
      else env[name] = String(value);
    }
    if (Object.values(env).some((value) => value.includes('\0'))) {
      throw inputProblem('a variable of shell contains a NUL character');
    }
    return env;
  }

  async #run(fields: ShellInput, cwd: string, env: Record<string, string>, context: CallContext): Promise<ToolOutcome> {
    const commands = typeof fields.cmds === 'string' ? [fields.cmds] : fields.cmds;
    if (commands.some((command) => command.includes('\0'))) {
      throw inputProblem('`cmds` of shell contains a NUL character');
    }
    if (!this.#processes) {
      const pipes = new OutputPipes();
      this.#processes = { pipes, guard: new OrphanGuard([pipes.folder]) };
    }
    const { pipes, guard } = this.#processes;
    const output = new CommandOutput(context, this.#options.maxOutputBytes);
    const ends: { exit_code: number; elapsed_ms: number }[] = [];
    let failure: ToolError | undefined;
    for (const [index, command] of commands.entries()) {
      const started = performance.now();
      let end: CommandEnd;
      try {
        end = await runCommand(
          {
            command,
            cwd,
            env,
            signal: context.signal,
            killGraceMs: this.#options.killGraceMs,
            onStdout: output.onStdout,
            onStderr: output.onStderr,
          },
          pipes,
          guard,
        );
      } catch (error) {
        failure = spawnError(error);
        break;
      }
      output.endLines();
      ends.push({ exit_code: exitCodeOf(end), elapsed_ms: Math.round(performance.now() - started) });
      if (context.signal.aborted) {
        failure = { ...abortError(context.signal), ...(context.effectClass === 'write' ? { unknown: true } : {}) };
        break;
      }
      if (end.exitCode !== 0 && !fields.continue_on_error) {
        failure = commandError(end, index, commands.length, output.lastError());
        break;
      }
    }
    const exitCode = ends.find((end) => end.exit_code !== 0)?.exit_code ?? 0;
    const meta = { commands: ends };
    const result = output.result(exitCode);
    return failure ? { status: 'error', error: failure, result, meta } : { status: 'ok', result, meta };
  }
}

/** The output of all commands of a task: lines for the log, text for the result. */
class CommandOutput {
  readonly onStdout: (chunk: Buffer) => void;
  readonly onStderr: (chunk: Buffer) => void;
  readonly #stdout: BoundedOutput;
  readonly #stderr: BoundedOutput;
  readonly #splitters: readonly LineSplitter[];
  #lastError = '';

  constructor(context: CallContext, maxBytes: number) {
    const budget = new LogBudget((stream, line) => {
      if (stream === 'stderr' && line.trim() !== '') this.#lastError = line;
      context.log(stream, line);
    });
    const [out, err] = [new LineSplitter('stdout', budget), new LineSplitter('stderr', budget)];
    this.#splitters = [out, err];
    this.#stdout = new BoundedOutput(maxBytes);
    this.#stderr = new BoundedOutput(maxBytes);
    this.onStdout = (chunk) => {
      this.#stdout.write(chunk);
      out.write(chunk);
    };
    this.onStderr = (chunk) => {
      this.#stderr.write(chunk);
      err.write(chunk);
    };
  }

  /** A command that ends without a line break must not share its last line with the next one. */
  endLines(): void {
    for (const splitter of this.#splitters) splitter.end();
  }

  lastError(): string {
    return this.#lastError.slice(0, 300);
  }

  result(exitCode: number): Record<string, unknown> {
    const stdout = this.#stdout.text();
    const lines = stdout === '' ? [] : stdout.replace(/\r?\n$/, '').split(/\r?\n/);
    const truncated = this.#stdout.truncated || this.#stderr.truncated;
    return { exit_code: exitCode, stdout, stderr: this.#stderr.text(), lines, truncated };
  }
}

function exitCodeOf({ exitCode, signal }: CommandEnd): number {
  // As a shell reports it.
  return exitCode ?? 128 + (signal === null ? 0 : (constants.signals[signal] ?? 0));
}

function commandError(end: CommandEnd, index: number, count: number, lastError: string): ToolError {
  const which = count === 1 ? 'the command' : `command ${index + 1} of ${count}`;
  const how = end.signal === null ? `ended with exit status ${end.exitCode}` : `was ended by ${end.signal}`;
  return {
    kind: 'shell',
    code: end.signal ?? `EXIT_${end.exitCode}`,
    message: `${which} ${how}${lastError === '' ? '' : `: ${lastError}`}`,
    // A signal from outside, such as that of the kernel when memory is short, may not come again.
    retryable: end.signal !== null,
  };
}

function spawnError(error: unknown): ToolError {
  const { code = 'TASK_FAILED' } = error as { code?: string };
  if (code === 'E2BIG') {
    const message = 'a command or its environment is too long for the system; put the data into a file';
    return { kind: 'input', code, message, retryable: false };
  }
  const scarce = ['EAGAIN', 'EMFILE', 'ENFILE', 'ENOMEM'].includes(code);
  const message = scarce
    ? `the system has no room for another process (${code})`
    : `/bin/sh could not be started (${code})`;
  return { kind: 'shell', code, message, retryable: scarce };
}
