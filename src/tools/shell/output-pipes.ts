import { execFile } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, rmSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/**
 * Real pipes for stdout and stderr. What Node calls a pipe is a socket, and a script that opens /dev/stderr or
 * /dev/stdout by name fails on a socket with ENXIO. Node cannot make a pipe, so named ones are made by mkfifo and used
 * again: a pipe that was read to its end has no writer left and holds nothing.
 */
export class OutputPipes {
  readonly folder = mkdtempSync(join(tmpdir(), 'runledger-shell-'));
  readonly #free: string[] = [];
  #made = 0;
  #closed = false;

  async open(): Promise<OutputPipe> {
    const path = this.#free.pop() ?? (await this.#make());
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return new OutputPipe(fd, openSync(path, constants.O_WRONLY), (clean) => this.#giveBack(path, clean));
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #make(): Promise<string> {
    const path = join(this.folder, `p${this.#made++}`);
    await promisify(execFile)('mkfifo', ['-m', '600', path], { env: { PATH: '/usr/bin:/bin' } });
    return path;
  }

  #giveBack(path: string, clean: boolean): void {
    if (this.#closed) return;
    if (clean) this.#free.push(path);
    else unlinkSync(path);
  }
}

export class OutputPipe {
  /** What a child gets. It is closed here by `handedOver`, else the end of the output would never come. */
  readonly writeFd: number;
  readonly #socket: Socket;
  readonly #ended: Promise<void>;
  #writeOpen = true;

  constructor(readFd: number, writeFd: number, giveBack: (clean: boolean) => void) {
    this.writeFd = writeFd;
    this.#socket = new Socket({ fd: readFd, readable: true, writable: false });
    let clean = false;
    this.#socket.once('end', () => {
      clean = true;
    });
    // Whatever goes wrong while reading ends in 'close', and nothing more can be read.
    this.#socket.on('error', () => {});
    this.#ended = new Promise((resolve) => {
      this.#socket.once('close', () => {
        giveBack(clean);
        resolve();
      });
    });
  }

  onData(take: (chunk: Buffer) => void): void {
    this.#socket.on('data', take);
  }

  handedOver(): void {
    if (this.#writeOpen) closeSync(this.writeFd);
    this.#writeOpen = false;
  }

  /** Waits for the end of the output, but not for a process that left its group and keeps the pipe open. */
  async drained(withinMs: number): Promise<void> {
    this.handedOver();
    this.#socket.resume();
    const timer = setTimeout(() => this.#socket.destroy(), withinMs);
    await this.#ended;
    clearTimeout(timer);
  }
}
