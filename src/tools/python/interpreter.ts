import { closeSync, constants, openSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { readFrames } from './frames.ts';

export interface InterpreterEnd {
  readonly code?: number;
  readonly signal?: string;
}

/** A forked interpreter that waits for its one task. */
export class Interpreter {
  readonly pid: number;
  readonly stdout: Socket;
  readonly stderr: Socket;
  readonly #connection: Socket;
  /** Settles when the process is gone. */
  readonly ended: Promise<InterpreterEnd>;
  #end!: (end: InterpreterEnd) => void;
  hasEnded = false;

  /** Takes the connection of a process that has said its number. Throws where its streams cannot be opened. */
  constructor(pid: number, connection: Socket, folder: string) {
    this.pid = pid;
    this.#connection = connection;
    const streams = ['out', 'err'].map((name) => openStream(join(folder, `${pid}.${name}`)));
    [this.stdout, this.stderr] = streams as [Socket, Socket];
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    for (const socket of this.#sockets()) {
      // Whatever goes wrong ends in 'close'; what it means is told by the end of the process.
      socket.on('error', () => {});
      // Spare interpreters must not keep this process alive.
      socket.unref();
    }
  }

  /** Sends the task. `onAnswer` is called at most once. */
  start(request: Buffer, maxAnswerBytes: number, onAnswer: (answer: Buffer | 'too large') => void): void {
    for (const socket of this.#sockets()) socket.ref();
    let answered = false;
    const once = (answer: Buffer | 'too large'): void => {
      if (!answered) onAnswer(answer);
      answered = true;
    };
    readFrames(this.#connection, maxAnswerBytes, { frame: once, tooLarge: () => once('too large') });
    // It was paused when it said its number, and would stay so.
    this.#connection.resume();
    this.#connection.write(request);
  }

  /** Called when the process is known to be gone. */
  settle(end: InterpreterEnd): void {
    this.hasEnded = true;
    this.#end(end);
  }

  /** A waiting interpreter ends by itself when its connection does. */
  letGo(): void {
    for (const socket of this.#sockets()) socket.destroy();
  }

  onConnectionClosed(listener: () => void): void {
    this.#connection.once('close', listener);
  }

  #sockets(): readonly Socket[] {
    return [this.#connection, this.stdout, this.stderr];
  }
}

function openStream(path: string): Socket {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    unlinkSync(path);
    return new Socket({ fd, readable: true, writable: false });
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
