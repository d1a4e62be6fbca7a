// A process that opens a folder's server and does what the test writes to its standard input, one word per line.
import { createInterface } from 'node:readline';
import { type EmbeddedOptions, openEmbedded } from './open-embedded.ts';
import { readPidFile } from './postmaster-pid.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as EmbeddedOptions;
const say = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
// As a program with a handler of its own would: Ctrl-C reaches it, and it goes on.
process.on('SIGINT', () => say({ type: 'interrupted' }));
try {
  const log = (line: string): void => say({ type: 'log', line });
  const server = await openEmbedded({ ...options, log, warn: (line) => say({ type: 'warning', line }) });
  const opened = async (type: string): Promise<void> => {
    const pid = (await readPidFile(server.dataDir))?.pid;
    say({ type, pid, dataDir: server.dataDir, host: server.config.host, version: server.version });
  };
  await opened('opened');
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'ensure') {
      await server.ensureRunning();
      await opened('ensured');
    }
    if (line === 'close') break;
  }
  await server.close();
  say({ type: 'closed' });
  process.exit(0);
} catch (error) {
  const { code, message } = error as { code?: string; message: string };
  say({ type: 'failed', code, message });
  process.exit(1);
}
