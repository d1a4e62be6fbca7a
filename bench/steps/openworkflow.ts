import { type Contender, loadPeer, type Setup, STEPS } from './contender.ts';

interface StepApi {
  run<T>(config: { name: string }, step: () => Promise<T>): Promise<T>;
}

interface Library {
  readonly OpenWorkflow: new (options: {
    backend: unknown;
  }) => {
    defineWorkflow(
      spec: { name: string },
      work: (given: { input: { id: string }; step: StepApi }) => Promise<unknown>,
    ): { run(input: { id: string }): Promise<unknown> };
    newWorker(options: { concurrency: number }): { start(): Promise<void>; stop(): Promise<void> };
  };
}

interface PostgresBackend {
  readonly BackendPostgres: { connect(url: string): Promise<{ stop(): Promise<void> }> };
}

/**
 * The end of a run is seen when its function returns, before it is stored: to ask for the result is to poll once a second,
 * which would measure nothing else.
 */
export async function openOpenWorkflow({ target, role, options, onFirstStep }: Setup): Promise<Contender> {
  const { OpenWorkflow } = await loadPeer<Library>('openworkflow');
  const { BackendPostgres } = await loadPeer<PostgresBackend>('openworkflow/postgres');
  // Its driver takes the folder of a socket from the environment only.
  process.env['PGHOST'] = target.host;
  const backend = await BackendPostgres.connect(`postgresql://${target.user}@:${target.port}/${target.database}`).catch(
    () => {
      process.env['PGPORT'] = String(target.port);
      process.env['PGUSER'] = target.user;
      return BackendPostgres.connect(`postgresql:///${target.database}`);
    },
  );
  const ow = new OpenWorkflow({ backend });
  const waiting = new Map<string, () => void>();
  const line = ow.defineWorkflow({ name: 'line' }, async ({ input: { id }, step }) => {
    for (let i = 0; i < STEPS; i++) {
      await step.run({ name: `s${i}` }, async () => {
        if (i === 0) onFirstStep(id);
        return i;
      });
    }
    waiting.get(id)?.();
  });
  const worker = role === 'starter' ? undefined : ow.newWorker({ concurrency: Number(options['concurrency'] ?? 64) });
  await worker?.start();
  const start = async (id: string): Promise<void> => void (await line.run({ id }));
  return {
    start,
    async run(id) {
      const ended = new Promise<void>((resolve) => waiting.set(id, resolve));
      await start(id);
      await ended;
      waiting.delete(id);
    },
    async close() {
      await worker?.stop();
      await backend.stop();
    },
  };
}
