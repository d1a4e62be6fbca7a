import { RUN_ENGINES } from '../../runtime/config.ts';
import type { Command } from '../context.ts';
import { clean } from '../terminal.ts';

export const worker: Command = async ({ args, terminal, session }) => {
  const stopped = new Promise<number>((resolve) => {
    process.on('SIGINT', () => resolve(130));
    process.on('SIGTERM', () => resolve(143));
  });
  const log = args.has('logs')
    ? (line: { entity: string; line: string }) => terminal.print(`${clean(line.entity)} | ${clean(line.line, 2000)}`)
    : undefined;
  const [tenantId, projectId] = [args.text('tenant'), args.text('project')];
  const scope = { ...(tenantId === undefined ? {} : { tenantId }), ...(projectId === undefined ? {} : { projectId }) };
  const engine = args.choice('engine', RUN_ENGINES);
  const runtime = await session.runtime({ work: true, ...(engine ? { engine } : {}), scope, ...(log ? { log } : {}) });
  if (terminal.json) terminal.print(JSON.stringify({ worker: runtime.worker?.owner, state: 'working' }));
  else terminal.print(`Working as ${runtime.worker?.owner}. Ctrl-C stops, and lets steps in flight finish.`);
  const exit = await stopped;
  if (!terminal.json) terminal.print('Stopping.');
  await session.close();
  return exit === 143 ? 0 : exit;
};
