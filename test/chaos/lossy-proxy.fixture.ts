import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, connect as dial, type NetConnectOpts, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Stands between a client and a server, and loses answers on demand: the server did the work, the client never hears of it. */
export class LossyProxy {
  /** The answer to the next query that names this function is lost, and the connection with it. */
  loseAnswerTo: string | undefined;
  refuse = false;
  cuts = 0;
  readonly #target: NetConnectOpts;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #folder = '';

  constructor(url: string) {
    const parsed = new URL(url);
    const folder = parsed.searchParams.get('host');
    const port = Number(parsed.port || 5432);
    this.#target = folder ? { path: `${folder}/.s.PGSQL.${port}` } : { host: parsed.hostname, port };
    this.#server = createServer((client) => this.#carry(client));
  }

  /** The address of the same database through the proxy. */
  async listen(url: string): Promise<string> {
    this.#folder = await mkdtemp(join(tmpdir(), 'rl-proxy-'));
    await new Promise<void>((resolve) => this.#server.listen(join(this.#folder, '.s.PGSQL.5432'), resolve));
    const through = new URL(url);
    through.port = '5432';
    through.hostname = 'localhost';
    through.searchParams.set('host', this.#folder);
    return through.href;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    await rm(this.#folder, { recursive: true, force: true });
  }

  #carry(client: Socket): void {
    if (this.refuse) {
      client.destroy();
      return;
    }
    const upstream = dial(this.#target);
    for (const socket of [client, upstream]) {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    }
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end);
    let doomed = false;
    client.on('data', (data) => {
      if (this.loseAnswerTo !== undefined && data.includes(this.loseAnswerTo)) doomed = true;
      upstream.write(data);
    });
    upstream.on('data', (data) => {
      if (!doomed) {
        client.write(data);
        return;
      }
      // The answer is there, so the transaction has been committed.
      this.loseAnswerTo = undefined;
      this.cuts += 1;
      end();
    });
  }
}
