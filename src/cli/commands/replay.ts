import type { LedgerRecord } from '../../contracts/envelope.ts';
import { AppError } from '../../contracts/errors.ts';
import type { PlanRef } from '../../contracts/values.ts';
import { replay as replayLog } from '../../kernel/replay.ts';
import type { Command, Context } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { readLog } from '../read-log.ts';
import { clean } from '../terminal.ts';

export const replay: Command = async (context) => {
  const { args, terminal } = context;
  const run = await namedRun(context, args.positionals[0]!);
  const log = await readLog(context, run.runId);
  const report = await decideAgain(context, log);
  const { runId } = run;
  if (report.ok) {
    const { decisions, events } = report;
    if (terminal.json) terminal.printJson({ runId, ok: true, decisions, events });
    else terminal.print(`The same: ${decisions} decisions over ${events} events of run ${runId}.`);
    return 0;
  }
  const { runSeq, reason, command, recorded, decided } = report.difference;
  if (terminal.json) terminal.printJson({ runId, ok: false, runSeq, reason, command, recorded, decided });
  else {
    terminal.print(`Different at event ${runSeq}: ${clean(reason)} (on ${command})`);
    terminal.print(`recorded: ${clean(JSON.stringify(recorded?.payload ?? recorded?.eventType ?? null), 2000)}`);
    terminal.print(`decided:  ${clean(JSON.stringify(decided ?? null), 2000)}`);
  }
  return 1;
};

async function decideAgain({ session }: Context, log: readonly LedgerRecord[]) {
  const planRef = log.find((record) => record.payload?.['planRef'])?.payload?.['planRef'] as PlanRef | undefined;
  if (!planRef) throw new AppError('PLAN_NOT_FOUND', 'The log names no plan.');
  const runtime = await session.runtime({ work: false });
  const { plan } = await runtime.plans.fetch(planRef);
  const { fetchValues } = await import('../../worker/store-result.ts');
  const artifacts = await session.artifacts();
  let values: Record<string, unknown> = {};
  for (;;) {
    const report = replayLog(plan, log, values);
    if (!('need' in report)) return report;
    values = await fetchValues(artifacts, report.need, values);
  }
}
