import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Contender, loadPeer, type Setup, STEPS } from './contender.ts';

interface Context {
  run<T>(name: string, step: () => Promise<T>): Promise<T>;
}

interface Sdk {
  service(definition: unknown): unknown;
  serve(options: { services: unknown[]; port: number }): Promise<number>;
}

interface Clients {
  connect(options: { url: string }): {
    serviceClient(definition: { name: string }): { line(id: string): Promise<unknown> };
    serviceSendClient(definition: { name: string }): { line(id: string): Promise<unknown> };
  };
}

/**
 * The server is a process of its own with a log of its own; the steps are called in this process. It looks for a newer
 * version at start, which is why the contender's process lives in a network that has loopback only.
 */
export async function openRestate({ folder, onFirstStep }: Setup): Promise<Contender> {
  const promise = Promise as unknown as { withResolvers?: unknown };
  // Node 20 has not got it yet, and the SDK needs it.
  promise.withResolvers ??= () => {
    let [resolve, reject] = [(_: unknown) => {}, (_: unknown) => {}];
    const made = new Promise((yes, no) => {
      [resolve, reject] = [yes, no];
    });
    return { promise: made, resolve, reject };
  };
  const sdk = await loadPeer<Sdk>('@restatedev/restate-sdk');
  const clients = await loadPeer<Clients>('@restatedev/restate-sdk-clients');
  const [ingress, admin, node, endpoint] = await freePorts(4);
  const server = spawn(binary(), ['--no-logo', '--base-dir', folder], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'ignore'],
    env: {
      ...process.env,
      RUST_LOG: 'error',
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_DISABLE_TELEMETRY: 'true',
    },
  });
  // Without it the server would outlive a benchmark that was interrupted.
  process.once('exit', () => server.kill('SIGKILL'));
  const handlers = {
    line: async (context: Context, id: string) => {
      for (let i = 0; i < STEPS; i++) {
        await context.run(`s${i}`, async () => {
          if (i === 0) onFirstStep(id);
          return i;
        });
      }
    },
  };
  // It says on every start that requests are not signed.
  const { info, warn } = console;
  Object.assign(console, { info: () => {}, warn: () => {} });
  await sdk.serve({ services: [sdk.service({ name: 'bench', handlers })], port: endpoint! });
  Object.assign(console, { info, warn });
  await register(`http://127.0.0.1:${admin}`, `http://127.0.0.1:${endpoint}`);
  const client = clients.connect({ url: `http://127.0.0.1:${ingress}` });
  const call = client.serviceClient({ name: 'bench' });
  const send = client.serviceSendClient({ name: 'bench' });
  return {
    run: async (id) => void (await call.line(id)),
    start: async (id) => void (await send.line(id)),
    async close() {
      const gone = new Promise((resolve) => server.once('exit', resolve));
      server.kill('SIGKILL');
      await gone;
    },
  };
}

function binary(): string {
  const require = createRequire(import.meta.url);
  const server = require.resolve('@restatedev/restate-server/package.json');
  return createRequire(server).resolve(
    `@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`,
  );
}

async function register(admin: string, endpoint: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const answer = await fetch(`${admin}/deployments`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ uri: endpoint }),
    }).catch(() => undefined);
    if (answer?.ok) return;
    if (Date.now() > deadline) throw new Error(`restate did not take the service: ${await answer?.text()}`);
    await sleep(100);
  }
}

async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<ReturnType<typeof createServer>>((resolve) => {
          const server = createServer();
          server.listen(0, '127.0.0.1', () => resolve(server));
        }),
    ),
  );
  return Promise.all(
    servers.map(
      (server) =>
        new Promise<number>((resolve) => {
          const { port } = server.address() as { port: number };
          server.close(() => resolve(port));
        }),
    ),
  );
}
