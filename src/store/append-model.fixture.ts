import { type EventRow, eventRow } from '../contracts/catalogue.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import { isTerminal, type RunStatus, type StepStatus } from '../contracts/states.ts';

/** What a call is answered, as far as a model can know: no times. */
export type ModelAnswer =
  | { readonly ok: true; readonly receipts: readonly { eventId: string; runSeq: number; duplicate: boolean }[] }
  | { readonly ok: false; readonly code: string; readonly actual?: string | number };

/** One run of the append authority, by the rules of the contract and nothing else. Values are never changed. */
export interface ModelRun {
  readonly status: RunStatus | undefined;
  readonly lastSeq: number;
  readonly decidedSeq: number;
  /** Key to record, in the order of the log. */
  readonly stored: ReadonlyMap<string, { readonly eventId: string; readonly runSeq: number }>;
  readonly steps: ReadonlyMap<string, StepStatus>;
}

export const NEW_RUN: ModelRun = { status: undefined, lastSeq: 0, decidedSeq: 0, stored: new Map(), steps: new Map() };

/** Appends a call, or refuses it and gives the run back as it was. */
export function appendToModel(
  run: ModelRun,
  events: readonly RunEventWrite[],
  expectedHead?: number,
): { readonly run: ModelRun; readonly answer: ModelAnswer } {
  const refuse = (code: string, actual?: string | number) => ({
    run,
    answer: { ok: false as const, code, ...(actual === undefined ? {} : { actual }) },
  });
  const fresh = events.some((event) => !run.stored.has(event.idempotencyKey));
  if (fresh && expectedHead !== undefined && expectedHead !== run.decidedSeq)
    return refuse('HEAD_MOVED', run.decidedSeq);
  const stored = new Map(run.stored);
  const steps = new Map(run.steps);
  let { status, lastSeq, decidedSeq } = run;
  const receipts: { eventId: string; runSeq: number; duplicate: boolean }[] = [];
  for (const event of events) {
    const known = stored.get(event.idempotencyKey);
    if (known) {
      receipts.push({ ...known, duplicate: true });
      continue;
    }
    const row = eventRow(event.eventType) as EventRow;
    if (!runAllows(row, status)) return refuse('INVALID_TRANSITION', status ?? 'none');
    const attempt = `${event.stepId}@${event.logicalAttemptId}`;
    const step = steps.get(attempt) ?? 'PENDING';
    if (row.stepMove && step !== row.stepMove.from) return refuse('INVALID_TRANSITION', step);
    if (row.stepMove) steps.set(attempt, row.stepMove.to);
    status = row.runMove?.to ?? status;
    lastSeq += 1;
    if (!row.commutes) decidedSeq = lastSeq;
    stored.set(event.idempotencyKey, { eventId: event.eventId, runSeq: lastSeq });
    receipts.push({ eventId: event.eventId, runSeq: lastSeq, duplicate: false });
  }
  return { run: { status, lastSeq, decidedSeq, stored, steps }, answer: { ok: true, receipts } };
}

function runAllows(row: EventRow, status: RunStatus | undefined): boolean {
  if (row.runMove) return row.runMove.from.includes(status ?? null);
  return row.afterTerminal === true || status === undefined || !isTerminal(status);
}

/** A call as it was made and answered, with the order of the two among all calls. */
export interface ObservedCall {
  readonly events: readonly RunEventWrite[];
  readonly expectedHead?: number | undefined;
  readonly began: number;
  readonly ended: number;
  readonly answer: ModelAnswer;
}

/**
 * Explains the calls of one run by one order in which they could have been made one after the other: those that stored
 * something in the order of their sequence numbers, each other one somewhere between its begin and its end.
 * Returns the final state, or throws with the call that no order explains.
 */
export function explainCalls(calls: readonly ObservedCall[], start: ModelRun): ModelRun {
  const firstSeq = (call: ObservedCall): number =>
    call.answer.ok ? Math.min(...call.answer.receipts.filter((r) => !r.duplicate).map((r) => r.runSeq)) : Infinity;
  const writes = calls.filter((call) => firstSeq(call) < Infinity).sort((a, b) => firstSeq(a) - firstSeq(b));
  const states = [start];
  for (const [i, call] of writes.entries()) {
    const overtaken = writes.slice(0, i).find((earlier) => earlier.began > call.ended);
    if (overtaken) throw new Error(`a call that ended was overtaken: ${describe(call)} by ${describe(overtaken)}`);
    const { run, answer } = appendToModel(states[i] as ModelRun, call.events, call.expectedHead);
    if (!same(answer, call.answer)) throw new Error(`the model answers ${JSON.stringify(answer)} to ${describe(call)}`);
    states.push(run);
  }
  for (const call of calls.filter((call) => firstSeq(call) === Infinity)) {
    const from = writes.filter((write) => write.ended < call.began).length;
    const to = writes.filter((write) => write.began < call.ended).length;
    const possible = states.slice(from, to + 1).map((run) => appendToModel(run, call.events, call.expectedHead).answer);
    if (!possible.some((answer) => same(answer, call.answer))) {
      throw new Error(`no moment explains ${describe(call)}; possible were ${JSON.stringify(possible)}`);
    }
  }
  return states.at(-1) as ModelRun;
}

const same = (a: ModelAnswer, b: ModelAnswer): boolean => JSON.stringify(a) === JSON.stringify(b);

function describe(call: ObservedCall): string {
  const events = call.events.map((e) => `${e.eventType}(${e.entity ?? e.stepId ?? 'RUN'},${e.logicalAttemptId})`);
  return `[${events.join(' ')}] on head ${call.expectedHead ?? 'any'}, answered ${JSON.stringify(call.answer)}`;
}
