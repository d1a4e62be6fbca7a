import type { Socket } from 'node:net';
import { LineSplitter, LogBudget } from '../log-lines.ts';
import type { CallContext } from '../tool.ts';
import type { Interpreter, InterpreterEnd } from './interpreter.ts';
import type { PythonPool } from './python-pool.ts';

/** How a task ended: with an answer, or without one. */
export type TaskEnd =
  | { readonly answer: Buffer | 'too large' }
  | { readonly died: InterpreterEnd }
  | { readonly aborted: true };

/** An answer may still be on its way when the end of its process is known. */
const LAST_WORDS_MS = 500;
/** Output that is still open after the answer belongs to processes that the task left behind. */
const DRAIN_MS = 1000;

/** The status of an interpreter that has nobody to give its answer to. */
export const LOST_CHANNEL_STATUS = 71;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Runs a request in the interpreter and returns when nothing of it is left: no process, no output. */
export async function runTask(
  pool: PythonPool,
  interpreter: Interpreter,
  request: Buffer,
  maxAnswerBytes: number,
  context: Pick<CallContext, 'signal' | 'log'>,
): Promise<TaskEnd> {
  const { signal } = context;
  const budget = new LogBudget(context.log);
  const drained = Promise.all([
    readLines(interpreter.stdout, new LineSplitter('stdout', budget)),
    readLines(interpreter.stderr, new LineSplitter('stderr', budget)),
  ]);
  const closed = new Promise<void>((resolve) => interpreter.onConnectionClosed(resolve));
  let onAbort = (): void => {};
  try {
    const end = await new Promise<TaskEnd>((resolve) => {
      onAbort = () => resolve({ aborted: true });
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) return onAbort();
      interpreter.start(request, maxAnswerBytes, (answer) => resolve({ answer }));
      // The end of the process and the end of its connection come in either order, and an answer may still be on its
      // way. A program that closed its connection and goes on can give no result any more.
      const lastWords = (): Promise<void> => sleep(LAST_WORDS_MS);
      void interpreter.ended.then(async (died) => {
        await Promise.race([closed, lastWords()]);
        resolve({ died });
      });
      void closed.then(async () => {
        resolve({ died: (await Promise.race([interpreter.ended, lastWords()])) ?? { code: LOST_CHANNEL_STATUS } });
      });
    });
    if (!('answer' in end) || end.answer === 'too large') pool.kill(interpreter);
    await Promise.race([drained, interpreter.ended.then(() => sleep(DRAIN_MS / 2)), sleep(DRAIN_MS)]);
    return end;
  } finally {
    signal.removeEventListener('abort', onAbort);
    // After an answer the process ends by itself, and its group with it. One that does not is killed.
    if (!interpreter.hasEnded) setTimeout(() => pool.kill(interpreter), DRAIN_MS).unref();
    interpreter.letGo();
    await drained;
  }
}

function readLines(stream: Socket, splitter: LineSplitter): Promise<void> {
  return new Promise((resolve) => {
    stream.on('data', (chunk: Buffer) => splitter.write(chunk));
    stream.once('close', () => {
      splitter.end();
      resolve();
    });
  });
}
