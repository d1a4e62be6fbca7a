import { stat } from 'node:fs/promises';

const LOOK_MS = 150;

/**
 * Files, each as it was when it was first named. Looked at again and again instead of being told by the system: that works on
 * every file system, and however an editor saves.
 */
export class FileStamps {
  readonly #stamps = new Map<string, Promise<string>>();

  add(file: string): void {
    if (!this.#stamps.has(file)) this.#stamps.set(file, stampOf(file));
  }

  get size(): number {
    return this.#stamps.size;
  }

  /** The first file that is no longer what it was, once it has stayed so for a moment; undefined when the signal came. */
  async changed(signal: AbortSignal): Promise<string | undefined> {
    let settling: { readonly file: string; readonly stamp: string } | undefined;
    for (;;) {
      for (const [file, was] of this.#stamps) {
        const stamp = await stampOf(file);
        if (stamp === (await was)) continue;
        // An editor may be in the middle of writing it, or of putting a new one in its place.
        if (settling?.file === file && settling.stamp === stamp && stamp !== GONE) return file;
        settling = { file, stamp };
        break;
      }
      await pause(signal);
      if (signal.aborted) return undefined;
    }
  }
}

const GONE = 'gone';

async function stampOf(file: string): Promise<string> {
  try {
    const { mtimeMs, size, ino } = await stat(file);
    return `${mtimeMs}:${size}:${ino}`;
  } catch {
    return GONE;
  }
}

function pause(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, LOOK_MS);
    signal.addEventListener('abort', end);
  });
}
