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
  for (;;) {
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
    const changed = await nextChange(files);
    if (changed === undefined) return INTERRUPTED[0]!;
    terminal.note(terminal.paintError('dim', `${clean(changed)} has changed.\n`));
  }
}

async function nextChange(files: FileStamps): Promise<string | undefined> {
  const stop = new AbortController();
  const leave = (): void => stop.abort();
  process.once('SIGINT', leave);
  process.once('SIGTERM', leave);
  try {
    return await files.changed(stop.signal);
  } finally {
    process.off('SIGINT', leave);
    process.off('SIGTERM', leave);
  }
}
