import type { RunEventRecord } from '../contracts/envelope.ts';
import type { Plan } from '../contracts/plan.ts';
import { sameJson } from '../lib/same-json.ts';
import type { Command, EventDraft } from './commands.ts';
import { engineState } from './compile-plan.ts';
import { decide } from './decide.ts';
import { evolve } from './evolve.ts';
import { objectOf } from './payload-reader.ts';
import { commandAt } from './replay-commands.ts';
import type { Values } from './run-scope.ts';
import type { RunState } from './state.ts';

/** The first place where the record and the kernel disagree. */
export interface ReplayDifference {
  readonly runSeq: number;
  readonly recorded: RunEventRecord | undefined;
  readonly decided: EventDraft | undefined;
  /** What was re-decided, in words. */
  readonly command: string;
  readonly reason: string;
}

export type ReplayResult =
  | { readonly ok: true; readonly decisions: number; readonly events: number }
  | { readonly ok: false; readonly decisions: number; readonly difference: ReplayDifference }
  | { readonly need: readonly string[]; readonly runSeq: number };

/**
 * Decides a recorded run again and compares. Commands are rebuilt from the outcomes in the log; ids, times and jitter
 * are read back from the record. Facts that workers wrote are taken as they are: replay checks decisions, not the world.
 */
export function replay(plan: Plan, log: readonly RunEventRecord[], values?: Values): ReplayResult {
  let state = log[0] ? engineState(plan, log[0].runId) : undefined;
  let decisions = 0;
  for (let at = 0; at < log.length; ) {
    const found = commandAt(log, at, state as RunState);
    if (!found) {
      state = evolve(state as RunState, log[at] as RunEventRecord);
      at++;
      continue;
    }
    const command = { ...found.command, ...(values === undefined ? {} : { values }) } as Command;
    const decision = decide(plan, state as RunState, command);
    decisions++;
    const first = log[at] as RunEventRecord;
    if ('need' in decision) return { need: decision.need, runSeq: first.runSeq };
    if ('reject' in decision) {
      const difference = differing(command, first, undefined, `refused: ${decision.reject.message}`);
      return { ok: false, decisions, difference };
    }
    for (const [i, decided] of decision.events.entries()) {
      const recorded = log[at + i];
      const reason = recorded ? unlike(recorded, decided) : 'the log ends here';
      if (reason !== undefined)
        return { ok: false, decisions, difference: differing(command, recorded, decided, reason) };
      state = evolve(state as RunState, recorded as RunEventRecord);
    }
    at += Math.max(decision.events.length, 1);
  }
  return { ok: true, decisions, events: log.length };
}

function differing(
  command: Command,
  recorded: RunEventRecord | undefined,
  decided: EventDraft | undefined,
  reason: string,
): ReplayDifference {
  return { runSeq: recorded?.runSeq ?? 0, recorded, decided, command: command.type, reason };
}

/** Times in a payload that a decision takes from the clock or from jitter. */
const TIMES = ['dueAt', 'until', 'completedAt', 'startedAt'] as const;

/** Why a recorded event is not the decided one, or undefined. */
function unlike(recorded: RunEventRecord, decided: EventDraft): string | undefined {
  if (recorded.eventType !== decided.eventType) return `the log has ${recorded.eventType}, not ${decided.eventType}`;
  for (const key of ['stepId', 'entity', 'logicalAttemptId'] as const) {
    if (recorded[key] !== decided[key]) return `${key} is '${recorded[key]}', not '${decided[key]}'`;
  }
  const old = objectOf(recorded.payload);
  const now: Record<string, unknown> = { ...decided.payload };
  for (const key of TIMES) if (Object.hasOwn(now, key) && Object.hasOwn(old, key)) now[key] = old[key];
  const keys = new Set([...Object.keys(old), ...Object.keys(now)]);
  for (const key of keys) if (!sameJson(old[key], now[key])) return `payload.${key} differs`;
  return undefined;
}
