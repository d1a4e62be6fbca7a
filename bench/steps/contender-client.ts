import { type ChildProcess, spawn } from 'node:child_process';
import { buildProcess } from './build-process.ts';
import type { Target } from './contender.ts';
import type { Verbs } from './contender-process.ts';

let built: Promise<string> | undefined;

export interface ContenderOptions {
  readonly name: string;
  readonly target: Target;
  readonly folder: string;
  readonly role?: 'both' | 'starter' | 'worker';
  readonly options?: Readonly<Record<string, unknown>>;
}

type Answer<V extends keyof Verbs> = Awaited<ReturnType<Verbs[V]>>;
type Given<V extends keyof Verbs> = Parameters<Verbs[V]>[0];

/** A contender's process as the benchmark sees it. */
export class ContenderClient {
  static readonly #open = new Set<ContenderClient>();
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #asked = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  readonly #firsts = new Map<string, (at: number) => void>();
  #asks = 0;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.pid = child.pid!;
    child.on('message', (message: { ask?: number; answer?: never; error?: string; first?: string; at?: number }) => {
      if (message.first !== undefined) return this.#firsts.get(message.first)?.(message.at!);
      const asked = this.#asked.get(message.ask!);
      this.#asked.delete(message.ask!);
      if (message.error === undefined) asked?.resolve(message.answer as never);
      else asked?.reject(new Error(message.error));
    });
    child.once('exit', (code, signal) => {
      for (const { reject } of this.#asked.values()) reject(new Error(`the process ended: ${code ?? signal}`));
    });
  }

  static async open({ name, target, folder, role = 'both', options = {} }: ContenderOptions): Promise<ContenderClient> {
    built ??= buildProcess();
    const node = [process.execPath, await built];
    // Restate's server asks the internet for a newer version; in a network of its own there is none.
    const [file, ...args] =
      name === 'restate' && process.platform === 'linux'
        ? ['unshare', '--map-root-user', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', ...node]
        : node;
    const child = spawn(file!, args, {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
    });
    const client = new ContenderClient(child);
    ContenderClient.#open.add(client);
    await client.ask('open', { name, target, folder, role, options });
    return client;
  }

  ask<V extends keyof Verbs>(verb: V, given?: Given<V>): Promise<Answer<V>> {
    this.#asks += 1;
    const ask = this.#asks;
    return new Promise((resolve, reject) => {
      this.#asked.set(ask, { resolve, reject });
      this.#child.send({ ask, verb, given: given ?? {} });
    });
  }

  /** When this worker called the first step of that run. */
  first(id: string): Promise<number> {
    return new Promise((resolve) => this.#firsts.set(id, resolve));
  }

  /** Ends whatever a failed part has left. */
  static async closeAll(): Promise<void> {
    await Promise.all([...ContenderClient.#open].map((client) => client.close()));
  }

  async close(): Promise<void> {
    ContenderClient.#open.delete(this);
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    const late = setTimeout(() => this.#child.kill('SIGKILL'), 10_000);
    await this.ask('close').catch(() => {});
    this.#child.disconnect();
    await gone;
    clearTimeout(late);
  }
}
