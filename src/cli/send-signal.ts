import { randomUUID } from 'node:crypto';
import { AppError } from '../contracts/errors.ts';
import type { EngineRunRef } from '../contracts/values.ts';
import type { SignalRequest } from '../engines/engine.ts';
import type { EngineRuntime } from '../runtime/engine-parts.ts';
import type { Context } from './context.ts';
import { namedRun } from './named-run.ts';

/** Sends a signal to the run that the name means; a refusal is an error with its reason. */
export async function sendSignal(
  context: Context,
  name: string,
  request: Omit<SignalRequest, 'signalId' | 'by'>,
  work = false,
): Promise<{ readonly runId: string; readonly ref: EngineRunRef; readonly runtime: EngineRuntime }> {
  const { runId, engine } = await namedRun(context, name);
  const runtime = await context.session.runtime({ work, engine });
  const ref = runtime.engine.refOf({ runId });
  const answer = await runtime.engine.signal(ref, { ...request, signalId: randomUUID(), by: 'cli' });
  if (!answer.accepted)
    throw new AppError('SIGNAL_REJECTED', answer.reason ?? `The run does not take ${request.type} now.`, { runId });
  return { runId, ref, runtime };
}
