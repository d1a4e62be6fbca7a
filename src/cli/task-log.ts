import type { LogLine } from '../worker/ports.ts';
import { placeName } from './place-name.ts';
import type { Progress } from './progress.ts';
import { clean } from './terminal.ts';

/** Leads what tasks print to the display, which exists only after the worker does. */
export function taskLog(wanted: boolean): { log: (line: LogLine) => void; connect: (progress: Progress) => void } {
  let progress: Progress | undefined;
  return {
    log: ({ entity, line }) => {
      if (wanted) progress?.say(`${placeName(entity)} | ${clean(line, 2000)}`);
    },
    connect: (to) => {
      progress = to;
    },
  };
}
