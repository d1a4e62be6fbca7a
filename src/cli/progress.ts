import type { RunTree, StepLine } from './run-tree.ts';
import { progressBar, stepLine, treeLines } from './show-tree.ts';
import { clean, crop, displayWidth, duration, type Terminal } from './terminal.ts';

/** Shows a run while it goes on. */
export interface Progress {
  /** Something happened to a step. `path` names the steps that lead to its run. */
  changed(step: StepLine, path: readonly string[]): void;
  /** A line between the others: what a task printed, or what happens to the run. */
  say(line: string): void;
  /** The last picture; nothing is shown afterwards. */
  end(): void;
}

/** What the last line of a live display says beside how far the run is. */
export interface StatusLine {
  /** How many steps there will be, where that is known. */
  readonly total: () => number | undefined;
  readonly hint: () => string;
}

export function progressFor(tree: RunTree, terminal: Terminal, status: StatusLine): Progress {
  if (terminal.json) return terminal.verbose ? new PlainProgress(terminal, (line) => terminal.note(line)) : SILENT;
  return terminal.hints.live
    ? new LiveProgress(tree, terminal, status)
    : new PlainProgress(terminal, (line) => terminal.print(line));
}

const SILENT: Progress = { changed() {}, say() {}, end() {} };

/** A step that takes longer than this is named before it has ended. */
const SLOW_MS = 2000;

/** A line per step that ended, for pipes, logs and terminals that cannot move the cursor. */
class PlainProgress implements Progress {
  readonly #terminal: Terminal;
  readonly #print: (line: string) => void;
  readonly #said = new Map<StepLine, string>();
  readonly #slow = new Map<StepLine, NodeJS.Timeout>();

  constructor(terminal: Terminal, print: (line: string) => void) {
    this.#terminal = terminal;
    this.#print = print;
  }

  changed(step: StepLine, path: readonly string[]): void {
    const { into } = this.#terminal.symbols;
    const prefix = path.map((name) => `${name} ${into} `).join('');
    const tell = (): void => this.#print(stepLine(step, this.#terminal, { prefix, now: Date.now() }));
    const state = `${step.mark} ${step.attempt}`;
    if (step.mark === 'running') {
      if (!this.#slow.has(step)) this.#slow.set(step, setTimeout(tell, SLOW_MS));
      return;
    }
    clearTimeout(this.#slow.get(step));
    this.#slow.delete(step);
    if (step.mark === 'waiting' || this.#said.get(step) === state) return;
    this.#said.set(step, state);
    tell();
  }

  say(line: string): void {
    this.#print(line);
  }

  end(): void {
    for (const timer of this.#slow.values()) clearTimeout(timer);
  }
}

const FRAME_MS = 100;
const SPINNERS = { unicode: '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏', ascii: '|/-\\' };
const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';

/** The tree of steps, painted again in its place. */
class LiveProgress implements Progress {
  readonly #tree: RunTree;
  readonly #terminal: Terminal;
  readonly #status: StatusLine;
  readonly #timer: NodeJS.Timeout;
  readonly #offResize: () => void;
  readonly #showCursor = (): void => this.#terminal.write(SHOW_CURSOR);
  #painted: readonly string[] = [];
  #frame = 0;

  constructor(tree: RunTree, terminal: Terminal, status: StatusLine) {
    this.#tree = tree;
    this.#terminal = terminal;
    this.#status = status;
    this.#timer = setInterval(() => this.#paint(), FRAME_MS);
    this.#offResize = terminal.onResize(() => this.#paint());
    terminal.write(HIDE_CURSOR);
    // Whatever ends the process, the person gets the cursor back.
    process.on('exit', this.#showCursor);
  }

  changed(): void {
    // Painted with the next frame.
  }

  say(line: string): void {
    this.#terminal.write(`${this.#erase()}${clean(line, 2000)}\n`);
    this.#painted = [];
    this.#paint();
  }

  end(): void {
    clearInterval(this.#timer);
    this.#offResize();
    const lines = treeLines(this.#tree, this.#terminal, { now: Date.now(), width: this.#terminal.columns - 1 });
    this.#terminal.write(`${this.#erase()}${lines.map((line) => `${line}\n`).join('')}${SHOW_CURSOR}`);
    process.off('exit', this.#showCursor);
  }

  #paint(): void {
    const { columns, rows, hints } = this.#terminal;
    const frames = [...(hints.unicode ? SPINNERS.unicode : SPINNERS.ascii)];
    const spinner = frames[this.#frame++ % frames.length]!;
    // One column is left free: a terminal that wraps at once would count one line as two.
    const width = columns - 1;
    const lines = treeLines(this.#tree, this.#terminal, {
      now: Date.now(),
      spinner,
      width,
      bars: width >= 60,
      rows: Math.max(2, rows - 3),
    });
    lines.push(this.#statusLine(width));
    this.#terminal.write(`${this.#erase()}${lines.map((line) => `${line}\n`).join('')}`);
    this.#painted = lines;
  }

  #statusLine(width: number): string {
    const { symbols } = this.#terminal;
    const steps = [...this.#tree.steps.values()];
    const ended = steps.filter(({ mark }) => mark !== 'waiting' && mark !== 'running').length;
    const total = this.#status.total();
    const { startedAt } = this.#tree;
    const parts: string[] = [];
    if (total !== undefined && width >= 40)
      parts.push(progressBar(ended, total, Math.min(30, width >> 2), this.#terminal));
    parts.push(total === undefined ? `${ended} step${ended === 1 ? '' : 's'} done` : `${ended}/${total} steps`);
    if (startedAt !== undefined) parts.push(duration(Math.max(0, Date.now() - startedAt)));
    if (width >= 60) parts.push(this.#status.hint());
    return this.#terminal.paint('dim', crop(parts.join('  '), width, symbols.more));
  }

  /** Back to where the picture began. After a resize its lines may take more rows than they did. */
  #erase(): string {
    const { columns } = this.#terminal;
    const height = this.#painted.reduce((sum, line) => sum + Math.max(1, Math.ceil(displayWidth(line) / columns)), 0);
    return height === 0 ? '' : `\u001b[${height}A\r\u001b[J`;
  }
}
