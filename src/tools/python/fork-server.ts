import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { AppError } from '../../contracts/errors.ts';
import { signalGroup } from '../process-group.ts';
import { readFrames } from './frames.ts';
import { Interpreter, type InterpreterEnd } from './interpreter.ts';

export interface ForkServerOptions {
  readonly python: string;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Modules to import before forking, so that tasks have them at once. */
  readonly preload: readonly string[];
}

export interface ForkServerEvents {
  /** An interpreter is ready for a task. */
  readonly onReady: (server: ForkServer, interpreter: Interpreter) => void;
  /** A fork that was asked for did not come to be. */
  readonly onForkFailed: (server: ForkServer, code: string) => void;
  /** The server is gone, and every interpreter with it. */
  readonly onGone: (server: ForkServer) => void;
}

const SCRIPT = fileURLToPath(new URL('./fork_server.py', import.meta.url));
const START_TIMEOUT_MS = 30_000;
const KILL_CHECK_MS = 500;
const GIVE_UP_MS = 10_000;
const MAX_BASE = 70;
const MAX_ERROR_TEXT = 2000;

type ControlMessage = { ready?: string; refused?: string; failed?: string; exit?: number } & InterpreterEnd;

/** A Python process that forks itself for every task. */
export class ForkServer {
  readonly version: string;
  readonly #process: ChildProcess;
  readonly #control: Socket;
  readonly #server: Server;
  readonly #folder: string;
  readonly #events: ForkServerEvents;
  readonly #interpreters = new Map<number, Interpreter>();
  /** Processes whose end was told before their first word arrived here. */
  readonly #endedEarly = new Set<number>();
  readonly #gone: Promise<void>;
  isGone = false;

  /** Throws TOOL_UNAVAILABLE, with what to do, where there is no usable Python. */
  static async start(options: ForkServerOptions, events: ForkServerEvents): Promise<ForkServer> {
    if (process.platform === 'win32') {
      throw new AppError('TOOL_UNAVAILABLE', 'the python tool needs Linux or macOS; on Windows use WSL');
    }
    // The path of a socket has room for about a hundred characters.
    const base = tmpdir().length > MAX_BASE ? '/tmp' : tmpdir();
    const folder = mkdtempSync(join(base, 'runledger-py-'));
    const server = createServer();
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(join(folder, 's'), resolve);
      });
      server.unref();
      const child = spawn(options.python, [SCRIPT, folder, JSON.stringify(options.preload)], {
        cwd: options.cwd,
        env: options.env,
        detached: true,
        stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      });
      const version = await untilReady(child, options.python);
      return new ForkServer(child, version, server, folder, events);
    } catch (error) {
      server.close();
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  private constructor(child: ChildProcess, version: string, server: Server, folder: string, events: ForkServerEvents) {
    this.version = version;
    this.#process = child;
    this.#control = child.stdio[3] as Socket;
    this.#server = server;
    this.#folder = folder;
    this.#events = events;
    this.#gone = new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) resolve();
      child.once('exit', () => resolve());
    });
    void this.#gone.then(() => this.#onGone());
    createInterface({ input: this.#control })
      // It hands on the errors of its input, where the end of the process already tells all.
      .on('error', () => {})
      .on('line', (line) => this.#onControl(JSON.parse(line) as ControlMessage));
    server.on('connection', (socket) => this.#onConnection(socket));
    child.unref();
    for (const stream of [child.stdout, child.stderr, this.#control] as Socket[]) {
      stream.on('error', () => {});
      stream.resume();
      stream.unref();
    }
  }

  /** Whether somebody waits for us; spare interpreters alone must not keep this process alive. */
  keepAlive(yes: boolean): void {
    if (yes) this.#control.ref();
    else this.#control.unref();
  }

  fork(): void {
    this.#control.write('fork\n');
  }

  /** Kills the group of an interpreter; its end is reported as any other. */
  kill(interpreter: Interpreter): void {
    if (interpreter.hasEnded) return;
    // The server alone knows for certain that the number still means this process.
    this.#control.write(`kill ${interpreter.pid}\n`);
    setTimeout(() => {
      // A task can stop its parent. Then its group is killed from here and the parent goes on; others rely on it.
      if (interpreter.hasEnded) return;
      signalGroup(interpreter.pid, 'SIGKILL');
      signalGroup(this.#process.pid ?? 0, 'SIGCONT');
    }, KILL_CHECK_MS).unref();
    setTimeout(() => {
      if (!interpreter.hasEnded) signalGroup(this.#process.pid ?? 0, 'SIGKILL');
    }, GIVE_UP_MS).unref();
  }

  async close(): Promise<void> {
    this.#process.ref();
    this.#control.end();
    const forced = setTimeout(() => signalGroup(this.#process.pid ?? 0, 'SIGKILL'), 2 * KILL_CHECK_MS);
    await this.#gone;
    clearTimeout(forced);
  }

  #onControl(message: ControlMessage): void {
    if (message.failed !== undefined) this.#events.onForkFailed(this, message.failed);
    if (message.exit === undefined) return;
    const interpreter = this.#interpreters.get(message.exit);
    if (interpreter) {
      this.#settle(interpreter, message);
      return;
    }
    // One that died before it could say its number was a fork that failed.
    this.#endedEarly.add(message.exit);
    this.#events.onForkFailed(this, message.signal ?? `exit ${message.code}`);
  }

  #onConnection(socket: Socket): void {
    socket.on('error', () => {});
    readFrames(socket, 1024, {
      frame: (body) => {
        socket.removeAllListeners('data');
        socket.pause();
        try {
          const { pid } = JSON.parse(body.toString()) as { pid: number };
          if (this.#endedEarly.delete(pid)) throw new Error('it is gone');
          const interpreter = new Interpreter(pid, socket, this.#folder);
          this.#interpreters.set(pid, interpreter);
          this.#events.onReady(this, interpreter);
        } catch {
          // It is gone, or this process has no room for its streams: the interpreter ends with its connection.
          socket.destroy();
        }
      },
      tooLarge: () => socket.destroy(),
    });
  }

  #settle(interpreter: Interpreter, end: InterpreterEnd): void {
    this.#interpreters.delete(interpreter.pid);
    const { code, signal } = end;
    interpreter.settle({ ...(code === undefined ? {} : { code }), ...(signal === undefined ? {} : { signal }) });
  }

  #onGone(): void {
    this.isGone = true;
    this.#server.close();
    for (const interpreter of [...this.#interpreters.values()]) {
      signalGroup(interpreter.pid, 'SIGKILL');
      this.#settle(interpreter, { signal: 'SIGKILL' });
    }
    rmSync(this.#folder, { recursive: true, force: true });
    this.#events.onGone(this);
  }
}

async function untilReady(child: ChildProcess, python: string): Promise<string> {
  const unavailable = (why: string): AppError =>
    new AppError(
      'TOOL_UNAVAILABLE',
      `the python tool cannot use '${python}': ${why}; install Python 3.8 or newer, activate a virtual environment, or name an interpreter in the configuration`,
      { python },
    );
  let errorText = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    errorText = (errorText + chunk.toString()).slice(-MAX_ERROR_TEXT);
  });
  const control = child.stdio[3] as Socket;
  control.on('error', () => {});
  const timer = setTimeout(() => signalGroup(child.pid ?? 0, 'SIGKILL'), START_TIMEOUT_MS);
  try {
    return await new Promise<string>((resolve, reject) => {
      child.once('error', (error: NodeJS.ErrnoException) => {
        reject(unavailable(error.code === 'ENOENT' ? 'it was not found' : `it cannot be started (${error.code})`));
      });
      child.once('exit', (code, signal) => {
        const last = errorText.trim().split('\n').at(-1) ?? '';
        reject(unavailable(`it ended with ${signal ?? `exit status ${code}`}${last === '' ? '' : ` (${last})`}`));
      });
      let line = '';
      const onData = (chunk: Buffer): void => {
        line += chunk.toString();
        if (!line.includes('\n')) return;
        control.off('data', onData);
        control.pause();
        const message = JSON.parse(line) as ControlMessage;
        if (message.ready !== undefined) resolve(message.ready);
        else reject(unavailable(message.refused ?? 'it did not become ready'));
      };
      control.on('data', onData);
    });
  } catch (error) {
    signalGroup(child.pid ?? 0, 'SIGKILL');
    throw error;
  } finally {
    clearTimeout(timer);
    child.removeAllListeners('exit');
    child.removeAllListeners('error');
    child.on('error', () => {});
  }
}
