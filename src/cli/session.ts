import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '../contracts/errors.ts';
import type { EngineName } from '../contracts/values.ts';
import type { Settings } from '../runtime/config.ts';
import { loadSettings } from '../runtime/config.ts';
import type { EngineRuntime } from '../runtime/engine-parts.ts';
import type { Ledger, LedgerHooks } from '../runtime/open-ledger.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { ClaimScope } from '../store/work.ts';
import type { ArtifactStore } from '../tools/tool.ts';
import type { LogLine } from '../worker/ports.ts';
import type { Arguments } from './parse-command.ts';
import { isDiskFull } from './report-error.ts';
import type { Terminal } from './terminal.ts';

const TROUBLE_MS = 30_000;

/** What a command opens: each part on first use, and everything closed at its end. */
export class Session {
  readonly #args: Arguments;
  readonly #terminal: Terminal;
  #settings: Promise<Settings> | undefined;
  #ledger: Promise<Ledger> | undefined;
  #hooks: LedgerHooks = {};
  /** Where a person is told what work waits for; a display takes this over. */
  trouble: (line: string) => void = (line) => this.#terminal.note(line);
  readonly #toldAt = new Map<string, number>();
  readonly #runtimes: EngineRuntime[] = [];
  #closing: Promise<void> | undefined;

  constructor(args: Arguments, terminal: Terminal) {
    this.#args = args;
    this.#terminal = terminal;
  }

  settings(): Promise<Settings> {
    this.#settings ??= loadSettings({ configFile: this.#args.text('config'), folder: this.#args.text('folder') });
    return this.#settings;
  }

  async store(): Promise<PostgresStore> {
    this.#ledger ??= this.#openLedger();
    return (await this.#ledger).store;
  }

  /** How the database is opened from now on; one that could not be opened is tried again. */
  openWith(hooks: LedgerHooks): void {
    this.#hooks = hooks;
    this.#ledger = undefined;
  }

  async #openLedger(): Promise<Ledger> {
    const [settings, { openLedger }] = await Promise.all([this.settings(), import('../runtime/open-ledger.ts')]);
    const terminal = this.#terminal;
    // It takes a moment, in which nothing is to be seen.
    const isFirst = settings.databaseUrl === undefined && !existsSync(join(settings.folder, 'pg'));
    if (isFirst && process.stderr.isTTY && !terminal.json)
      terminal.note(terminal.paintError('dim', `Making a private Postgres in ${settings.folder}; this is done once.`));
    return openLedger(settings, {
      log: terminal.verbose ? (line) => terminal.note(line) : undefined,
      warn: (line) => terminal.note(line),
      ...this.#hooks,
    });
  }

  async artifacts(): Promise<ArtifactStore> {
    const { artifactsOf } = await import('../runtime/open-runtime.ts');
    return artifactsOf(await this.settings());
  }

  /** The engine that is named, or that of the settings, with a worker in this process where `work` is asked for. */
  async runtime(options: {
    readonly work: boolean;
    readonly engine?: EngineName;
    readonly scope?: ClaimScope;
    readonly log?: (line: LogLine) => void;
  }): Promise<EngineRuntime> {
    const [{ openRuntime }, settings, store] = await Promise.all([
      import('../runtime/open-runtime.ts'),
      this.settings(),
      this.store(),
    ]);
    const concurrency = this.#args.count('concurrency', 1) ?? settings.concurrency;
    const runtime = await openRuntime({ ...settings, concurrency }, store, {
      work: options.work,
      ...(options.engine ? { engine: options.engine } : {}),
      scope: options.scope,
      ...(options.log ? { log: options.log } : {}),
      onError: (error, unit) => {
        if (this.#terminal.verbose) this.#terminal.note(`worker: ${unit}: ${(error as Error).message}`);
        else this.#tellTrouble(error);
      },
    });
    this.#runtimes.push(runtime);
    return runtime;
  }

  /** Work that fails for want of its ground is tried again, and a person should know what it waits for: now and then. */
  #tellTrouble(error: unknown): void {
    const isAway = error instanceof AppError && error.code === 'STORE_UNAVAILABLE';
    if (!isDiskFull(error) && !isAway) return;
    const why = isDiskFull(error) ? 'the disk is full' : 'the database is not there';
    if (Date.now() - (this.#toldAt.get(why) ?? 0) < TROUBLE_MS) return;
    this.#toldAt.set(why, Date.now());
    this.trouble(`Waiting: ${why} (${(error as Error).message}). The run goes on by itself, or after resume.`);
  }

  /** Closes a runtime that is no longer needed while the command goes on. */
  async release(runtime: EngineRuntime): Promise<void> {
    this.#runtimes.splice(this.#runtimes.indexOf(runtime), 1);
    await runtime.close();
  }

  /** `drainMs`: how long steps in flight may go on before they are handed back. */
  close(drainMs?: number): Promise<void> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number | undefined): Promise<void> {
    for (const runtime of this.#runtimes) await runtime.close(drainMs);
    const ledger = await this.#ledger?.catch(() => undefined);
    await ledger?.close();
  }
}
