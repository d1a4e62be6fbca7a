import { spawn } from 'node:child_process';

/** One bash for a whole document, so that its blocks share folder, variables and jobs as a reader's terminal does. */
export class DocShell {
  readonly #child;
  #output = '';
  #turn = 0;
  #heard: (() => void) | undefined;

  constructor(folder: string, env: Readonly<Record<string, string>>) {
    this.#child = spawn('bash', ['--noprofile', '--norc'], { cwd: folder, env, detached: true });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text;
        this.#heard?.();
      });
    }
    this.#child.stdin.on('error', () => {});
    this.#child.stdin.write('exec 2>&1\n');
  }

  /** Types the lines, and gives what was printed and how the last one ended. */
  async type(lines: string): Promise<{ code: number; output: string }> {
    this.#turn += 1;
    const mark = `--- end of block ${this.#turn}:`;
    const from = this.#output.length;
    // A group reads the whole block before it runs, and its commands do not eat what is typed next.
    this.#child.stdin.write(`{\n${lines}\n} </dev/null\nprintf '\\n%s%s\\n' '${mark}' "$?"\n`);
    const ended = new RegExp(`\\n${mark}(\\d+)\\n`);
    for (;;) {
      const match = ended.exec(this.#output.slice(from));
      if (match) return { code: Number(match[1]), output: this.#output.slice(from, from + match.index) };
      if (this.#child.exitCode !== null) throw new Error(`the shell ended: ${this.#output.slice(from)}`);
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
        this.#child.once('close', () => resolve());
      });
    }
  }

  /** Ends the shell and whatever it still runs. */
  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('close', resolve));
    if (this.#child.exitCode !== null) return;
    // Its own process group, which this made.
    process.kill(-this.#child.pid!, 'SIGKILL');
    await ended;
  }
}
