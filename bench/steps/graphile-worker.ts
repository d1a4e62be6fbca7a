import pg from 'pg';
import { type Contender, loadPeer, type Setup, STEPS } from './contender.ts';

interface Helpers {
  addJob(task: string, payload: unknown): Promise<unknown>;
}

interface Library {
  run(options: Record<string, unknown>): Promise<{ stop(): Promise<void>; addJob: Helpers['addJob'] }>;
  makeWorkerUtils(options: Record<string, unknown>): Promise<Helpers & { migrate(): Promise<void> }>;
  readonly Logger: new (factory: () => () => void) => unknown;
}

interface Job {
  readonly id: string;
  readonly n: number;
}

/** Jobs, not steps: nothing is kept of a job that is done. A run of ten is a job that adds the next, ten times. */
export async function openGraphileWorker({ target, role, onFirstStep }: Setup): Promise<Contender> {
  const { run, makeWorkerUtils, Logger } = await loadPeer<Library>('graphile-worker');
  const pgPool = new pg.Pool({ ...target, max: 10 });
  pgPool.on('error', () => {});
  pgPool.on('connect', (client) => client.on('error', () => {}));
  const logger = new Logger(() => () => {});
  const waiting = new Map<string, () => void>();
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  const runner =
    role === 'starter'
      ? undefined
      : await run({
          pgPool,
          logger,
          concurrency: 64,
          noHandleSignals: true,
          taskList: {
            step: async ({ id, n }: Job, helpers: Helpers) => {
              if (n === 0) onFirstStep(id);
              if (n + 1 < STEPS) await helpers.addJob('step', { id, n: n + 1 });
              else waiting.get(id)?.();
            },
          },
        });
  const start = async (id: string): Promise<void> => void (await utils.addJob('step', { id, n: 0 }));
  return {
    start,
    async run(id) {
      const ended = new Promise<void>((resolve) => waiting.set(id, resolve));
      await start(id);
      await ended;
      waiting.delete(id);
    },
    async close() {
      await runner?.stop();
      await pgPool.end();
    },
  };
}
