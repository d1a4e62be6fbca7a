import { RUN_ENGINES } from '../../runtime/run-engines.ts';
import type { LogLine } from '../../worker/ports.ts';
import type { Command } from '../context.ts';
import { placeName } from '../place-name.ts';
import { clean } from '../terminal.ts';

export const worker: Command = async ({ args, terminal, session }) => {
  const stopped = new Promise<number>((resolve) => {
    process.on('SIGINT', () => resolve(130));
    process.on('SIGTERM', () => resolve(143));
  });
  const show = ({ runId, stepId, entity, stream, line }: LogLine): void =>
    terminal.print(
      terminal.json
        ? JSON.stringify({ runId, stepId, entity, stream, line })
        : `${runId.slice(0, 8)} ${placeName(entity)} | ${clean(line, 2000)}`,
    );
  const log = args.has('logs') ? show : undefined;
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
