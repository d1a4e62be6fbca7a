import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import { compiledFile, tellWarnings } from '../compiled-file.ts';
import type { Command } from '../context.ts';
import { driveRun } from '../drive-run.ts';
import { workloadOf } from '../run-options.ts';
import { taskLog } from '../task-log.ts';

export const run: Command = async (context) => {
  const { args, terminal, session } = context;
  const workload = workloadOf(args);
  const compiled = await compiledFile(context, args.positionals[0]!);
  tellWarnings(context, compiled.warnings);
  const settings = await session.settings();
  const logs = taskLog(args.has('logs'));
  const runId = randomUUID();
  // Other runs of the database are the business of workers: this process ends with its own.
  const scope = { runs: [runId] };
  const runtime = await session.runtime({ work: !args.has('detach'), scope, log: logs.log });
  for (const child of compiled.children.values()) await runtime.plans.keep(child);
  const planRef = await runtime.plans.keep(compiled);
  if (!terminal.json) {
    const { planId, planVersion } = compiled.planRef;
    terminal.print(
      terminal.paint('dim', `run ${runId.slice(0, 8)}  ${planId} ${planVersion}  plan ${compiled.sha256.slice(0, 12)}`),
    );
  }
  await runtime.engine.startRun(
    planRef,
    { ...settings.scope, runId, targetAdapter: 'native' },
    { trigger: { type: 'manual' }, triggeredBy: userName(), ...(workload === undefined ? {} : { workload }) },
  );
  if (args.has('detach')) {
    if (terminal.json) terminal.printJson({ runId, status: 'RUNNING' });
    else terminal.print(`next: runledger events ${runId.slice(0, 8)} --follow`);
    return 0;
  }
  return driveRun(context, runtime, runId, { sink: logs.connect });
};

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // An account without an entry in the system's list has no name.
    return 'unknown';
  }
}
