import { AppError } from '../contracts/errors.ts';
import type { Context } from './context.ts';
import { FileStamps } from './file-stamps.ts';
import { reportError } from './report-error.ts';
import { clean } from './terminal.ts';

const INTERRUPTED = [130, 143];

/**
 * Runs again whenever one of the files that a run is made of has changed. `prepare` names them and may fail, which a change
 * can cure; `start` runs what it gave. A change during a run waits for its end: what a run began, it finishes.
 */
export async function runOnChange<T>(
  { terminal }: Context,
  prepare: (files: FileStamps) => Promise<T>,
  start: (prepared: T) => Promise<number>,
): Promise<number> {
  const stop = new AbortController();
  // While a run is shown, it is the run that is interrupted.
  const leave = (): void => {
    if (process.listenerCount('SIGINT') === 1) stop.abort();
  };
  process.on('SIGINT', leave);
  process.on('SIGTERM', leave);
  try {
    while (!stop.signal.aborted) {
      const files = new FileStamps();
      let prepared: { readonly value: T } | undefined;
      try {
        prepared = { value: await prepare(files) };
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        reportError(error, terminal);
      }
      const exit = prepared ? await start(prepared.value) : 0;
      if (INTERRUPTED.includes(exit)) return exit;
      const others = files.size > 1 ? ` or of ${files.size - 1} other file${files.size === 2 ? '' : 's'}` : '';
      terminal.note(terminal.paintError('dim', `\nWaits for a change of the playbook${others}. Ctrl-C ends.`));
      const changed = await files.changed(stop.signal);
      if (changed !== undefined) terminal.note(terminal.paintError('dim', `${clean(changed)} has changed.\n`));
    }
    return INTERRUPTED[0]!;
  } finally {
    process.off('SIGINT', leave);
    process.off('SIGTERM', leave);
  }
}
