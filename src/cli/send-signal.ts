import { randomUUID } from 'node:crypto';
import type { EngineRunRef } from '../contracts/values.ts';
import type { SignalRequest } from '../engines/engine.ts';
import type { EngineRuntime } from '../runtime/engine-parts.ts';
import type { Context } from './context.ts';
import { namedRun } from './named-run.ts';
import { signalRefusal } from './signal-refusal.ts';

/** Sends a signal to the run that the name means; a refusal is an error with its reason. */
export async function sendSignal(
  context: Context,
  name: string,
  request: Omit<SignalRequest, 'signalId' | 'by'>,
): Promise<{ readonly runId: string; readonly ref: EngineRunRef; readonly runtime: EngineRuntime }> {
  const run = await namedRun(context, name);
  const { runId, engine } = run;
  const runtime = await context.session.runtime({ work: false, engine });
  const ref = runtime.engine.refOf({ runId });
  const answer = await runtime.engine.signal(ref, { ...request, signalId: randomUUID(), by: 'cli' });
  if (!answer.accepted) throw await signalRefusal(context, run, { ...request, reason: answer.reason });
  return { runId, ref, runtime };
}
