import { AppError } from '../../contracts/errors.ts';
import { toolFailure } from '../define-tool.ts';
import { ForkServer, type ForkServerOptions } from './fork-server.ts';
import type { Interpreter } from './interpreter.ts';

export interface PoolOptions extends ForkServerOptions {
  /** Interpreters that run at the same time; further tasks wait. */
  readonly maxProcesses: number;
  /** Interpreters that wait for a task, so that none has to wait for a fork. */
  readonly spare: number;
  /** After so long without a task everything is let go. */
  readonly idleMs: number;
}

interface Waiter {
  readonly resolve: (interpreter: Interpreter) => void;
  readonly reject: (error: unknown) => void;
}

const MAX_FORK_FAILURES = 5;

/** Hands out forked interpreters, each for one task. */
export class PythonPool {
  readonly #options: PoolOptions;
  readonly #waiters: Waiter[] = [];
  #server: ForkServer | undefined;
  #starting: Promise<void> | undefined;
  #spare: Interpreter[] = [];
  #forking = 0;
  #running = 0;
  #forkFailures = 0;
  #idle: NodeJS.Timeout | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /**
   * An interpreter for one task, which the caller lets go when it is done with it. Rejects with TOOL_UNAVAILABLE, with a
   * stated failure, or with the reason of the signal.
   */
  async acquire(signal: AbortSignal): Promise<Interpreter> {
    signal.throwIfAborted();
    let onAbort = (): void => {};
    try {
      return await new Promise<Interpreter>((resolve, reject) => {
        const waiter: Waiter = { resolve, reject };
        onAbort = () => {
          const at = this.#waiters.indexOf(waiter);
          if (at !== -1) this.#waiters.splice(at, 1);
          reject(signal.reason);
          this.#restWhenIdle();
        };
        signal.addEventListener('abort', onAbort, { once: true });
        this.#waiters.push(waiter);
        this.#advance();
        this.#restWhenIdle();
      });
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  kill(interpreter: Interpreter): void {
    this.#server?.kill(interpreter);
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#starting?.catch(() => {});
    const server = this.#server;
    if (!server) return;
    this.#forgetServer(server);
    await server.close();
  }

  #advance(): void {
    if (this.#waiters.length === 0) return;
    if (!this.#server) {
      this.#starting ??= this.#start();
      return;
    }
    while (this.#waiters.length > 0 && this.#spare.length > 0 && this.#running < this.#options.maxProcesses) {
      this.#hand(this.#spare.shift()!, this.#waiters.shift()!);
    }
    const free = Math.max(0, this.#options.maxProcesses - this.#running);
    const wanted = Math.min(this.#waiters.length, free) + this.#options.spare;
    for (let have = this.#spare.length + this.#forking; have < wanted; have++) {
      this.#forking++;
      this.#server.fork();
    }
  }

  #hand(interpreter: Interpreter, waiter: Waiter): void {
    this.#running++;
    void interpreter.ended.then(() => {
      this.#running--;
      this.#advance();
      this.#restWhenIdle();
    });
    waiter.resolve(interpreter);
  }

  async #start(): Promise<void> {
    try {
      const server = await ForkServer.start(this.#options, {
        onReady: (from, interpreter) => this.#onReady(from, interpreter),
        onForkFailed: (from, code) => this.#onForkFailed(from, code),
        onGone: (from) => this.#forgetServer(from),
      });
      if (server.isGone) throw died();
      this.#server = server;
      this.#forkFailures = 0;
      this.#starting = undefined;
      this.#advance();
      this.#restWhenIdle();
    } catch (error) {
      this.#starting = undefined;
      for (const waiter of this.#waiters.splice(0))
        waiter.reject(error instanceof AppError ? error : notStarted(error));
    }
  }

  #onReady(server: ForkServer, interpreter: Interpreter): void {
    if (server !== this.#server) {
      interpreter.letGo();
      return;
    }
    this.#forking = Math.max(0, this.#forking - 1);
    this.#forkFailures = 0;
    this.#spare.push(interpreter);
    // A spare one that dies while it waits must not be handed out.
    interpreter.onConnectionClosed(() => this.#dropSpare(interpreter));
    void interpreter.ended.then(() => this.#dropSpare(interpreter));
    this.#advance();
  }

  #dropSpare(interpreter: Interpreter): void {
    const at = this.#spare.indexOf(interpreter);
    if (at === -1) return;
    this.#spare.splice(at, 1);
    interpreter.letGo();
    this.#advance();
  }

  #onForkFailed(server: ForkServer, code: string): void {
    if (server !== this.#server) return;
    this.#forking = Math.max(0, this.#forking - 1);
    if (++this.#forkFailures < MAX_FORK_FAILURES) {
      this.#advance();
      return;
    }
    this.#forkFailures = 0;
    const error = notStarted({ code });
    for (const waiter of this.#waiters.splice(0)) waiter.reject(error);
  }

  #forgetServer(server: ForkServer): void {
    if (this.#server !== server) return;
    this.#server = undefined;
    this.#forking = 0;
    for (const interpreter of this.#spare.splice(0)) interpreter.letGo();
    this.#advance();
  }

  #restWhenIdle(): void {
    clearTimeout(this.#idle);
    this.#server?.keepAlive(this.#running > 0 || this.#waiters.length > 0);
    if (this.#running > 0 || this.#waiters.length > 0 || !this.#server) return;
    this.#idle = setTimeout(() => void this.close(), this.#options.idleMs);
    this.#idle.unref();
  }
}

/** Too many processes or open files, a full disk: nothing that is wrong with the task. */
function notStarted(error: unknown): AppError {
  const { code = 'INTERNAL' } = error as { code?: string };
  const message = `no interpreter could be started (${code}): the system may have no room for another one`;
  return toolFailure({ code: 'PYTHON_NOT_STARTED', message, retryable: true });
}

function died(): AppError {
  return toolFailure({ code: 'PYTHON_DIED', message: 'the interpreter ended while it started', retryable: true });
}
