import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { parsePasswd } from './account.ts';
import { pathHash } from './data-place.ts';
import type { EmbeddedOptions } from './open-embedded.ts';
import { readLockFile, readPidFile } from './postmaster-pid.ts';
import { processState } from './process-state.ts';
import type { RunAs } from './run-command.ts';
import { socketFile } from './socket-folder.ts';

export interface Message {
  readonly type: string;
  readonly line?: string;
  readonly pid?: number;
  readonly dataDir?: string;
  readonly host?: string;
  readonly code?: string;
  readonly message?: string;
}

/** A temporary folder that every account can enter; gone after the test, with the server that may run in it. */
export async function temporaryFolder(mode = 0o755): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rl-embedded-'));
  await chmod(folder, mode);
  onTestFinished(async () => {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  return folder;
}

/** After the test: ends the server of exactly this data folder, and removes its socket folder. */
export function cleanServer(dataDir: string): void {
  onTestFinished(async () => {
    const socketDir = `/tmp/runledger-${pathHash(dataDir)}`;
    // The file beside the socket is there even if the test deleted the data folder.
    const files = [await readPidFile(dataDir), await readLockFile(`${socketFile(socketDir)}.lock`)];
    for (const pid of new Set(files.map((file) => file?.pid))) {
      if (pid === undefined || !(await servesFolder(pid, dataDir))) continue;
      process.kill(pid, 'SIGQUIT');
      await until(async () => (await processState(pid)) !== 'postgres');
    }
    await rm(socketDir, { recursive: true, force: true });
  });
}

/** A test may have written any pid into the file; only a server that was started for this folder is ever signalled. */
async function servesFolder(pid: number, dataDir: string): Promise<boolean> {
  if ((await processState(pid)) !== 'postgres') return false;
  return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').includes(dataDir);
}

export class Holder {
  readonly messages: Message[] = [];
  readonly child: ChildProcess;
  #changed: () => void = () => undefined;

  constructor(child: ChildProcess) {
    this.child = child;
    createInterface({ input: child.stdout! }).on('line', (line) => {
      this.messages.push(JSON.parse(line) as Message);
      this.#changed();
    });
    child.once('close', () => this.#changed());
  }

  get ended(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** The next message of a type, after `skip` earlier ones; a process that ends without saying it fails the test. */
  async said(type: string, skip = 0): Promise<Message> {
    for (;;) {
      const found = this.messages.filter((message) => message.type === type)[skip];
      if (found) return found;
      if (this.ended) throw new Error(`the process ended without "${type}": ${JSON.stringify(this.messages)}`);
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }

  tell(word: string): void {
    this.child.stdin!.write(`${word}\n`);
  }

  async close(): Promise<void> {
    this.tell('close');
    await this.said('closed');
  }

  async kill(): Promise<void> {
    if (this.ended) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await ended;
  }
}

/** Starts a process that opens the folder. It leads a process group of its own, as a command in a terminal does. */
export function startHolder(options: EmbeddedOptions, runAs?: RunAs): Holder {
  const script = fileURLToPath(new URL('./holder.fixture.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', script, JSON.stringify(options)], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
    ...(runAs && { uid: runAs.uid, gid: runAs.gid }),
  });
  child.stdin.on('error', () => undefined);
  const holder = new Holder(child);
  onTestFinished(() => holder.kill());
  return holder;
}

export async function openHolder(options: EmbeddedOptions, runAs?: RunAs): Promise<Holder> {
  const holder = startHolder(options, runAs);
  await holder.said('opened');
  return holder;
}

export const isRoot = process.getuid?.() === 0;

/** An account other than root's, to play the ordinary user when the tests run as root. */
export async function ordinaryAccount(): Promise<RunAs> {
  const account = parsePasswd(await readFile('/etc/passwd', 'utf8')).find(({ name }) => name === 'nobody');
  if (!account) throw new Error('the tests need the account `nobody`');
  return account;
}

export async function until(condition: () => boolean | Promise<boolean>, timeoutMs = 20_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error('waited in vain');
    await sleep(10);
  }
}

export function serverRuns(dataDir: string): boolean {
  return existsSync(join(dataDir, 'postmaster.pid'));
}
