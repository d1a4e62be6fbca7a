import { type Contender, loadPeer, type Setup, STEPS, urlOf } from './contender.ts';

interface Handle {
  getResult(): Promise<unknown>;
}

interface Sdk {
  readonly DBOS: {
    setConfig(config: Record<string, unknown>): void;
    launch(): Promise<void>;
    shutdown(): Promise<void>;
    registerWorkflow<A extends unknown[]>(
      work: (...given: A) => Promise<unknown>,
      config: { name: string },
    ): (...given: A) => Promise<unknown>;
    registerQueue(name: string, options?: Record<string, unknown>): Promise<unknown>;
    runStep<T>(step: () => Promise<T>, config: { name: string }): Promise<T>;
    startWorkflow<A extends unknown[]>(
      work: (...given: A) => Promise<unknown>,
      params?: Record<string, unknown>,
    ): (...given: A) => Promise<Handle>;
  };
  readonly DBOSClient: {
    create(options: Record<string, unknown>): Promise<{
      enqueue(options: Record<string, unknown>, ...given: unknown[]): Promise<Handle>;
      destroy(): Promise<void>;
    }>;
  };
}

const silent = { info() {}, debug() {}, warn() {}, error: console.error };

/** DBOS in the process; across processes by its queue, which is how it does that. */
export async function openDbos({ target, role, onFirstStep }: Setup): Promise<Contender> {
  const { DBOS, DBOSClient } = await loadPeer<Sdk>('@dbos-inc/dbos-sdk');
  const url = urlOf(target);
  if (role === 'starter') {
    const client = await DBOSClient.create({ systemDatabaseUrl: url, applicationName: 'bench', logger: silent });
    const start = async (id: string): Promise<Handle> =>
      client.enqueue({ workflowName: 'line', queueName: 'bench', workflowID: id }, id);
    return {
      run: async (id) => void (await (await start(id)).getResult()),
      start: async (id) => void (await start(id)),
      close: () => client.destroy(),
    };
  }
  DBOS.setConfig({ name: 'bench', systemDatabaseUrl: url, logger: silent, logLevel: 'error', runAdminServer: false });
  const line = DBOS.registerWorkflow(
    async (id: string) => {
      for (let i = 0; i < STEPS; i++) {
        await DBOS.runStep(
          async () => {
            if (i === 0) onFirstStep(id);
            return i;
          },
          { name: `s${i}` },
        );
      }
    },
    { name: 'line' },
  );
  await DBOS.launch();
  if (role === 'worker') await DBOS.registerQueue('bench');
  return {
    run: async (id) => void (await (await DBOS.startWorkflow(line, { workflowID: id })(id)).getResult()),
    start: async (id) => void (await DBOS.startWorkflow(line, { workflowID: id })(id)),
    close: () => DBOS.shutdown(),
  };
}
