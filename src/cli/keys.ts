import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const INTERRUPT = '\u0003';
const SUSPEND = '\u001a';
const QUIT = '\u001c';

/**
 * Single keys of a person at a terminal, as long as the command runs. The terminal then sends the keys that make signals as
 * characters too, so these are passed on. Gives a function that puts everything back.
 */
export function listenForKeys(keys: Readonly<Record<string, () => void>>): () => void {
  const { stdin } = process;
  if (!stdin.isTTY || !isForeground()) return () => {};
  const raw = (on: boolean): void => {
    try {
      stdin.setRawMode(on);
    } catch {
      // The terminal was closed; whoever closed it takes no keys.
    }
  };
  const restore = (): void => raw(false);
  const onData = (text: string): void => {
    for (const key of text) {
      if (key === INTERRUPT) process.emit('SIGINT');
      else if (key === QUIT) process.kill(process.pid, 'SIGQUIT');
      else if (key === SUSPEND) suspend();
      else keys[key]?.();
    }
  };
  const suspend = (): void => {
    restore();
    process.kill(process.pid, 'SIGTSTP');
  };
  // Continued in the background, the terminal belongs to somebody else.
  const onContinue = (): void => raw(isForeground());
  raw(true);
  stdin.setEncoding('utf8').on('data', onData).resume();
  process.on('SIGCONT', onContinue);
  // Whatever ends the process, the person gets a terminal back that shows what is typed.
  process.on('exit', restore);
  return () => {
    process.off('SIGCONT', onContinue);
    process.off('exit', restore);
    stdin.off('data', onData).pause();
    // A terminal that is still read would keep the process.
    stdin.unref?.();
    restore();
  };
}

/** A process in the background that reads keys, or changes how the terminal takes them, is stopped by the system. */
function isForeground(): boolean {
  try {
    if (process.platform === 'win32') return true;
    if (process.platform === 'linux') {
      // pid (name) state ppid pgrp session tty tpgid: the name may hold anything.
      const fields = readFileSync('/proc/self/stat', 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      return fields[2] === fields[5];
    }
    return execFileSync('ps', ['-o', 'stat=', '-p', String(process.pid)], { encoding: 'utf8' }).includes('+');
  } catch {
    return false;
  }
}
