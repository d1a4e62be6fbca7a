import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';

/**
 * Kills what was started when this process dies without a word. A receipt says until when a call can be under way; a
 * command that lives on after SIGKILL of its worker would make that a lie. One small shell watches for all commands: the
 * pipe to it ends with this process, however that ends.
 */
const SCRIPT = `
set -f
groups=' '
while IFS=' ' read -r verb id; do
  case $verb in
    +) groups="$groups$id " ;;
    -) case $groups in *" $id "*) groups="\${groups%% $id *} \${groups#* $id }" ;; esac ;;
  esac
done
for id in $groups; do kill -s KILL -- "-$id" 2>/dev/null; done
for folder; do rm -rf -- "$folder"; done
`;

export class OrphanGuard {
  readonly #folders: readonly string[];
  readonly #groups = new Set<number>();
  #watcher: ChildProcess | undefined;

  /** `folders` are temporary ones that go with the process. */
  constructor(folders: readonly string[] = []) {
    this.#folders = folders;
  }

  watch(group: number): void {
    this.#groups.add(group);
    this.#send(`+ ${group}\n`);
  }

  release(group: number): void {
    if (this.#groups.delete(group)) this.#send(`- ${group}\n`);
  }

  async close(): Promise<void> {
    const watcher = this.#watcher;
    this.#watcher = undefined;
    if (!watcher || watcher.exitCode !== null || watcher.signalCode !== null) return;
    watcher.ref();
    const ended = new Promise((resolve) => watcher.once('exit', resolve));
    watcher.stdin?.end();
    await ended;
  }

  #send(line: string): void {
    if (this.#watcher) {
      this.#watcher.stdin?.write(line);
    } else if (this.#groups.size > 0) {
      // A new watcher knows nothing, so it is told of everything that runs.
      this.#watcher = this.#start();
      this.#watcher.stdin?.write([...this.#groups].map((group) => `+ ${group}\n`).join(''));
    }
  }

  #start(): ChildProcess {
    const watcher = spawn('/bin/sh', ['-c', SCRIPT, 'runledger-guard', ...this.#folders], {
      // Its own session: a Ctrl-C for us must not end it before it has done its work.
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { PATH: '/usr/bin:/bin' },
      cwd: '/',
    });
    const forget = (): void => {
      if (this.#watcher === watcher) this.#watcher = undefined;
    };
    watcher.on('error', forget).on('exit', forget);
    watcher.stdin.on('error', forget);
    watcher.unref();
    (watcher.stdin as Socket).unref();
    return watcher;
  }
}
