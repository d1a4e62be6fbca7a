import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import type { AppError } from '../../contracts/errors.ts';
import { toolFailure } from '../define-tool.ts';

/** What a thread says of a program that ended, in one of these ways. */
export interface SandboxAnswer {
  /** JSON: {result}, {refused, message} or {error}. */
  readonly text?: string;
  readonly error?: { readonly name: string; readonly message: string; readonly stack: string };
  readonly memory?: true;
  readonly stopped?: true;
  /** Nothing is left to run, and the program's promise is not settled. */
  readonly pending?: true;
  readonly failed?: string;
}

export interface SandboxOptions {
  readonly maxWorkers: number;
  readonly memoryLimitBytes: number;
  readonly maxResultLength: number;
  /** After so long without a program the threads are let go. */
  readonly idleMs: number;
}

export interface SandboxTask {
  readonly code: string;
  /** JSON of an object. */
  readonly input: string;
  readonly onLine: (stream: 'stdout' | 'stderr', line: string) => void;
  readonly signal: AbortSignal;
  /** Counted from its beginning: the wait for a thread is not the program's fault. */
  readonly maxTimeMs: number;
}

interface Message {
  readonly lines: readonly (readonly ['stdout' | 'stderr', string])[];
  readonly answer?: SandboxAnswer;
}

interface Waiter {
  readonly resolve: (worker: Worker) => void;
  readonly reject: (error: unknown) => void;
}

const WASM = '@jitl/quickjs-wasmfile-release-sync/wasm';
const PAGE_BYTES = 65536;
/** What the module asks for at least: 16 MB. */
const INITIAL_PAGES = 256;
const MAX_LOG_CHARS = 4 * 1024 * 1024;
/** The engine asks often whether to stop; where it does not within this time, its thread is ended. */
const STOP_MS = 200;

/** Threads that run programs in sandboxes, one at a time each. */
export class SandboxPool {
  readonly #options: SandboxOptions;
  readonly #waiters: Waiter[] = [];
  readonly #idle: Worker[] = [];
  readonly #all = new Set<Worker>();
  #starting = 0;
  #module: Promise<WasmModule> | undefined;
  #rest: NodeJS.Timeout | undefined;

  constructor(options: SandboxOptions) {
    this.#options = options;
  }

  /** Runs a program. Rejects with the reason of the signal where it did not even begin. */
  async run(task: SandboxTask): Promise<SandboxAnswer> {
    const worker = await this.#acquire(task.signal);
    const stop = new SharedArrayBuffer(4);
    let onAbort = (): void => {};
    let onMessage = (_message: Message): void => {};
    let onError = (_error: Error): void => {};
    let onExit = (): void => {};
    let limit: NodeJS.Timeout | undefined;
    let terminate: NodeJS.Timeout | undefined;
    try {
      return await new Promise<SandboxAnswer>((resolve) => {
        onAbort = () => {
          clearTimeout(terminate);
          Atomics.store(new Int32Array(stop), 0, 1);
          terminate = setTimeout(() => {
            void this.#drop(worker);
            resolve({ stopped: true });
          }, STOP_MS);
        };
        onMessage = ({ lines, answer }) => {
          for (const [stream, line] of lines) task.onLine(stream, line);
          if (answer) resolve(answer);
        };
        onError = (error) => resolve({ failed: error.message });
        onExit = () => resolve({ failed: 'its thread ended' });
        worker.on('message', onMessage).on('error', onError).on('exit', onExit);
        task.signal.addEventListener('abort', onAbort, { once: true });
        if (task.signal.aborted) onAbort();
        limit = setTimeout(onAbort, task.maxTimeMs);
        worker.postMessage({ code: task.code, input: task.input, stop });
      });
    } finally {
      clearTimeout(limit);
      clearTimeout(terminate);
      task.signal.removeEventListener('abort', onAbort);
      worker.off('message', onMessage).off('error', onError).off('exit', onExit);
      this.#giveBack(worker);
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#rest);
    for (const waiter of this.#waiters.splice(0)) waiter.reject(closed());
    await Promise.all([...this.#all].map((worker) => this.#drop(worker)));
  }

  async #acquire(signal: AbortSignal): Promise<Worker> {
    signal.throwIfAborted();
    clearTimeout(this.#rest);
    let onAbort = (): void => {};
    try {
      return await new Promise<Worker>((resolve, reject) => {
        const waiter: Waiter = { resolve, reject };
        onAbort = () => {
          const at = this.#waiters.indexOf(waiter);
          if (at !== -1) this.#waiters.splice(at, 1);
          reject(signal.reason);
        };
        signal.addEventListener('abort', onAbort, { once: true });
        this.#waiters.push(waiter);
        this.#advance();
      });
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  #advance(): void {
    while (this.#waiters.length > 0 && this.#idle.length > 0) {
      const worker = this.#idle.pop()!;
      worker.ref();
      this.#waiters.shift()!.resolve(worker);
    }
    const room = this.#options.maxWorkers - this.#all.size - this.#starting;
    const missing = this.#waiters.length - this.#starting;
    for (let more = Math.min(room, missing); more > 0; more--) void this.#start();
  }

  async #start(): Promise<void> {
    this.#starting++;
    try {
      this.#module ??= loadModule();
      const { memoryLimitBytes, maxResultLength } = this.#options;
      const worker = new Worker(new URL('./sandbox-worker.mjs', import.meta.url), {
        workerData: {
          wasmModule: await this.#module,
          initialPages: INITIAL_PAGES,
          maximumPages: Math.max(INITIAL_PAGES, Math.ceil(memoryLimitBytes / PAGE_BYTES)),
          maxResultLength,
          maxLogChars: MAX_LOG_CHARS,
        },
        // Nothing of the host, not even to the thread around the sandbox.
        env: {},
        execArgv: [],
        argv: [],
        stdout: true,
        stderr: true,
      });
      this.#all.add(worker);
      worker.on('error', () => {});
      worker.once('exit', () => {
        this.#forget(worker);
        this.#advance();
      });
      this.#keep(worker);
    } catch (error) {
      this.#module = undefined;
      for (const waiter of this.#waiters.splice(0)) waiter.reject(error);
    } finally {
      this.#starting--;
      this.#advance();
    }
  }

  #giveBack(worker: Worker): void {
    if (this.#all.has(worker)) this.#keep(worker);
    this.#advance();
  }

  /** A thread that waits for a program keeps nobody from ending, and goes after a while. */
  #keep(worker: Worker): void {
    worker.unref();
    this.#idle.push(worker);
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => {
      for (const idle of [...this.#idle]) void this.#drop(idle);
    }, this.#options.idleMs);
    this.#rest.unref();
  }

  async #drop(worker: Worker): Promise<void> {
    this.#forget(worker);
    await worker.terminate();
  }

  #forget(worker: Worker): void {
    this.#all.delete(worker);
    const at = this.#idle.indexOf(worker);
    if (at !== -1) this.#idle.splice(at, 1);
  }
}

/** Compiled once and shared by all threads. */
async function loadModule(): Promise<WasmModule> {
  const path = createRequire(import.meta.url).resolve(WASM);
  const { compile } = (globalThis as unknown as { WebAssembly: { compile: Compile } }).WebAssembly;
  return compile(await readFile(path));
}

/** A compiled module is handed on as it is; Node's own types do not know it. */
type WasmModule = object;
type Compile = (bytes: Uint8Array) => Promise<WasmModule>;

function closed(): AppError {
  return toolFailure({ code: 'TOOL_UNAVAILABLE', message: 'the javascript tool was closed', retryable: true });
}
