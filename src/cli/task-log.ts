import type { LogLine } from '../worker/ports.ts';
import { placeName } from './place-name.ts';
import type { Progress } from './progress.ts';
import { clean } from './terminal.ts';

/** What is shown at once to somebody who asks in the middle of a run. */
const KEPT = 20;
const NOTHING = 'Tasks have printed nothing since; what they print from now on is shown.';

export interface TaskLog {
  readonly log: (line: LogLine) => void;
  /** Shows what tasks print from now on, and what they printed last; or stops to. */
  readonly toggle: () => void;
  readonly isShown: () => boolean;
  readonly connect: (progress: Progress) => void;
}

/** Leads what tasks print to the display, which exists only after the worker does. */
export function taskLog(wanted: boolean): TaskLog {
  let progress: Progress | undefined;
  let isShown = wanted;
  let isSaid = false;
  const kept: string[] = [];
  return {
    log: ({ entity, line }) => {
      isSaid = false;
      const text = `${placeName(entity)} | ${clean(line, 2000)}`;
      if (isShown && progress) {
        progress.say(text);
        return;
      }
      kept.push(text);
      if (kept.length > KEPT) kept.shift();
    },
    toggle: () => {
      isShown = !isShown;
      if (!isShown) return;
      // Keys that were typed ahead come together; once is enough.
      if (kept.length === 0 && !isSaid) progress?.say(NOTHING);
      isSaid ||= kept.length === 0;
      for (const text of kept.splice(0)) progress?.say(text);
    },
    isShown: () => isShown,
    connect: (to) => {
      progress = to;
      // What came before there was a display.
      if (isShown) for (const text of kept.splice(0)) to.say(text);
    },
  };
}
