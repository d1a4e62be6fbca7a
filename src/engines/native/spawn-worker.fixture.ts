import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./worker-process.fixture.ts', import.meta.url));

export interface WorkerProcess {
  readonly process: ChildProcess;
  /** Resolves when the process is gone, with how it went. */
  readonly gone: Promise<{ code: number | null; signal: string | null }>;
  stop(): Promise<void>;
}

/** Starts a worker in a process of its own and waits until it takes work. */
export async function spawnWorker(
  url: string,
  folder: string,
  options: object = {},
  script = SCRIPT,
): Promise<WorkerProcess> {
  const child = spawn(process.execPath, ['--import', 'tsx', script, url, folder, JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const gone = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.on('exit', (code, signal) => resolve({ code, signal }));
  });
  await new Promise<void>((resolve, reject) => {
    child.stdout!.once('data', () => resolve());
    void gone.then(({ code, signal }) => reject(new Error(`the worker ended at once: ${code ?? signal}`)));
  });
  return {
    process: child,
    gone,
    async stop() {
      child.kill('SIGTERM');
      await gone;
    },
  };
}
