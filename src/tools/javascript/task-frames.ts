/** A place in the program. */
export interface TaskFrame {
  readonly line: number;
  readonly in: string;
}

const FRAME = /^\s*at (?:(\S+) \()?<input>:(\d+)/;
/** The engine puts the head of a function before the program. */
const LINES_BEFORE = 2;
const MAX_FRAMES = 20;
const UNNAMED: readonly string[] = ['', 'anonymous', '<anonymous>'];

/** The lines of the program's own code in a stack of the engine. */
export function taskFrames(stack: string): TaskFrame[] {
  const frames: TaskFrame[] = [];
  for (const line of stack.split('\n')) {
    const [, name = '', number] = FRAME.exec(line) ?? [];
    const at = Number(number) - LINES_BEFORE;
    if (at > 0) frames.push({ line: at, in: UNNAMED.includes(name) ? '<program>' : name });
  }
  return frames.slice(0, MAX_FRAMES);
}
