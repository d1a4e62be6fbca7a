import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LedgerRecord } from '../../src/contracts/envelope.ts';
import { isTerminal } from '../../src/contracts/states.ts';
import type { EngineName, EngineRunRef } from '../../src/contracts/values.ts';
import type { Engine } from '../../src/engines/engine.ts';
import type { PlanSource } from '../../src/engines/plan-ref.ts';
import { checkedLog } from '../../src/engines/test-bench.fixture.ts';
import { canonicalJson } from '../../src/lib/canonical-json.ts';
import type { PostgresStore } from '../../src/store/postgres-store.ts';
import type { ArtifactStore } from '../../src/tools/tool.ts';
import { diffLines } from './diff-lines.ts';
import { normalise } from './normalise.ts';
import type { Program } from './programs.fixture.ts';

/** An engine that takes part. Gates are files in its folder. */
export interface Contestant {
  readonly provider: EngineName;
  readonly engine: Engine;
  readonly store: PostgresStore;
  readonly plans: Pick<PlanSource, 'keep'>;
  readonly artifacts: ArtifactStore;
  readonly folder: string;
  close(): Promise<void>;
}

const PATIENCE_MS = 100_000;
/** Programs under way at once: their timers run side by side, and the machine is small. */
const AT_ONCE = 8;

/** The normalised logs of all programs by title, each proven legal, chained and replayable before. Closes the engine. */
export async function logsOf(on: Contestant, programs: readonly Program[]): Promise<Map<string, string[]>> {
  try {
    return await runPrograms(on, programs);
  } finally {
    await on.close();
  }
}

/** What differs, program by program; nothing for equal logs. */
export function differences(left: ReadonlyMap<string, string[]>, right: ReadonlyMap<string, string[]>): string {
  if (canonicalJson([...left.keys()].sort()) !== canonicalJson([...right.keys()].sort()))
    return 'not the same programs';
  return [...left]
    .map(([title, lines]) => ({ title, diff: diffLines(lines, right.get(title) as string[]) }))
    .filter(({ diff }) => diff !== '')
    .map(({ title, diff }) => `${title}\n${diff}`)
    .join('\n\n');
}

async function runPrograms(on: Contestant, programs: readonly Program[]): Promise<Map<string, string[]>> {
  const lines = new Map<string, string[]>();
  const queue = [...programs];
  const lane = async (): Promise<void> => {
    for (let program = queue.shift(); program; program = queue.shift()) {
      lines.set(program.title, await runProgram(on, program));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return lines;
}

async function runProgram(on: Contestant, program: Program): Promise<string[]> {
  for (const child of program.children) await on.plans.keep(child);
  const planRef = await on.plans.keep(program.plan);
  const context = { tenantId: 'acme', projectId: 'main', environmentId: 'test' };
  const ref = await on.engine.startRun(
    planRef,
    { ...context, runId: randomUUID(), targetAdapter: on.provider },
    program.workload === undefined ? {} : { workload: program.workload },
  );
  for (const [i, { on: type, step, signal, opens = [] }] of (program.signals ?? []).entries()) {
    await seen(on, ref, program, ({ eventType, stepId }) => eventType === type && stepId === step);
    await on.engine.signal(ref, { signalId: `signal-${i}`, ...signal });
    for (const gate of opens) await writeFile(join(on.folder, `${ref.runId}-${gate}`), '');
  }
  return family(on, program, ref.runId);
}

/** The run's own log, and those of the runs that it started. */
async function family(on: Contestant, program: Program, runId: string): Promise<string[]> {
  await ended(on, program, runId);
  const log = await checkedLog(on.store, runId, on.artifacts);
  const lines = normalise(log);
  const children = log.flatMap(({ payload }) => (payload?.['childRunId'] ?? []) as string | never[]);
  const theirs = await Promise.all(children.map((child) => family(on, program, child)));
  // Children of branches come in any order.
  return [...lines, ...theirs.sort((a, b) => (a.join('\n') < b.join('\n') ? -1 : 1)).flat()];
}

async function ended(on: Contestant, program: Program, runId: string): Promise<void> {
  await until(on, program, runId, async () => {
    const run = await on.store.findRun(runId);
    return run?.status !== undefined && isTerminal(run.status);
  });
}

async function seen(
  on: Contestant,
  ref: EngineRunRef,
  program: Program,
  matches: (record: LedgerRecord) => boolean,
): Promise<void> {
  await until(on, program, ref.runId, async () => {
    const events = await on.store.readEvents(ref.runId);
    if (!events.some(matches) && /^Run(Comp|Fail|Canc)/.test(events.at(-1)!.eventType)) {
      throw new Error(`${program.title} ended before its signal:\n${normalise(events).join('\n')}`);
    }
    return events.some(matches);
  });
}

async function until(on: Contestant, program: Program, runId: string, holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + PATIENCE_MS; !(await holds()); await sleep(10)) {
    if (Date.now() < end) continue;
    const events = await on.store.readEvents(runId);
    const work = await on.store.work.list(runId);
    const types = events.map(({ eventType, entity, stepId }) => `${eventType} ${entity ?? stepId ?? ''}`);
    throw new Error(`${program.title} hangs on ${on.provider}: ${JSON.stringify(work)}\n${types.join('\n')}`);
  }
}
