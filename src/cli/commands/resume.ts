import { randomUUID } from 'node:crypto';
import { isTerminal } from '../../contracts/states.ts';
import type { Command } from '../context.ts';
import { driveRun } from '../drive-run.ts';
import { namedRun } from '../named-run.ts';
import { planPlaces } from '../plan-places.ts';
import { signalRefusal } from '../signal-refusal.ts';
import { taskLog } from '../task-log.ts';

export const resume: Command = async (context) => {
  const { args, terminal, session } = context;
  const run = await namedRun(context, args.positionals[0]!);
  const { runId, status, engine } = run;
  if (status !== undefined && isTerminal(status))
    throw await signalRefusal(context, run, { type: 'RESUME', reason: undefined });
  const logs = taskLog(args.has('logs'));
  const runtime = await session.runtime({ work: !args.has('detach'), engine, scope: { runs: [runId] }, log: logs.log });
  const ref = runtime.engine.refOf(run);
  if (status === 'PAUSED') {
    const answer = await runtime.engine.signal(ref, { signalId: randomUUID(), type: 'RESUME', by: 'cli' });
    if (!answer.accepted) throw await signalRefusal(context, run, { type: 'RESUME', reason: answer.reason });
  }
  // Work that a crash lost is put back; this changes nothing where none is missing.
  else await runtime.engine.repair(runId);
  if (args.has('detach')) {
    if (terminal.json) terminal.printJson({ runId, status: 'RUNNING' });
    else terminal.print(`Resumed run ${runId}.`);
    return 0;
  }
  if (!terminal.json) terminal.print(terminal.paint('dim', `run ${runId.slice(0, 8)} goes on`));
  const held = (await (await session.store()).work.list(runId)).filter(({ leaseOwner }) => leaseOwner !== undefined);
  for (const { unit, leaseOwner, leaseExpiresAt } of held) {
    // A worker that was killed could not hand back what it held; until its lease ends nobody knows that it is dead.
    const isOther = leaseOwner !== runtime.worker?.owner && Date.parse(leaseExpiresAt ?? '') > Date.now();
    if (isOther)
      terminal.note(`${unit} is held by ${leaseOwner} until ${leaseExpiresAt?.slice(11, 19)} UTC, unless it renews`);
  }
  const { locate } = await planPlaces(context, runId);
  return driveRun(context, runtime, runId, { skipPast: true, logs, locate });
};
