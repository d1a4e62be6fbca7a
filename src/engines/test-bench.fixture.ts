import { randomUUID } from 'node:crypto';
import { compiled } from '../compiler/compile.fixture.ts';
import type { CompileOptions, ResolveSync } from '../compiler/compile.ts';
import { parsePlan } from '../compiler/parse-plan.ts';
import type { LedgerRecord } from '../contracts/envelope.ts';
import { isTerminal } from '../contracts/states.ts';
import type { EngineRunRef } from '../contracts/values.ts';
import { foldWithReport } from '../kernel/evolve.ts';
import { replay } from '../kernel/replay.ts';
import { initialState } from '../kernel/state.ts';
import type { EngineRuntime } from '../runtime/engine-parts.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import { verifyChain } from '../store/verify-chain.ts';
import type { ArtifactStore } from '../tools/tool.ts';
import { fetchValues } from '../worker/store-result.ts';
import type { StartOptions } from './engine.ts';

interface CompileWith {
  readonly resolve?: ResolveSync;
  readonly tools?: NonNullable<CompileOptions['tools']>;
}

/** A runtime with its database, and the ways in which tests use it. */
export interface TestBench<Runtime extends EngineRuntime = EngineRuntime> {
  readonly url: string;
  readonly store: PostgresStore;
  readonly runtime: Runtime;
  /** Compiles a playbook, keeps its plans and starts a run. */
  start(text: string, options?: StartOptions & CompileWith): Promise<EngineRunRef>;
  /** The log of the run once it has ended. */
  ended(ref: EngineRunRef): Promise<LedgerRecord[]>;
  run(text: string, options?: StartOptions & CompileWith): Promise<LedgerRecord[]>;
  close(): Promise<void>;
}

interface Parts<Runtime> {
  readonly url: string;
  readonly store: PostgresStore;
  readonly runtime: Runtime;
  readonly artifacts: ArtifactStore;
  /** Dropped at the end, if it was made for this bench. */
  readonly database: { drop(): Promise<void> } | undefined;
  readonly targetAdapter: 'native' | 'temporal';
  /** The forms of the tools, where the playbook's own do not say. */
  readonly forms?: NonNullable<CompileOptions['tools']>;
}

const SCOPE = { tenantId: 'acme', projectId: 'main', environmentId: 'test' };

export function testBench<Runtime extends EngineRuntime>(parts: Parts<Runtime>): TestBench<Runtime> {
  const { url, store, runtime, artifacts, database, targetAdapter, forms } = parts;
  const bench: TestBench<Runtime> = {
    url,
    store,
    runtime,
    async start(text, start = {}) {
      const { resolve, tools = forms, ...rest } = start;
      const plan = compiled(text, { ...(resolve ? { resolve } : {}), ...(tools ? { tools } : {}) });
      for (const child of plan.children.values()) await runtime.plans.keep(child);
      const planRef = await runtime.plans.keep(plan);
      return runtime.engine.startRun(planRef, { ...SCOPE, runId: randomUUID(), targetAdapter }, rest);
    },
    async ended(ref) {
      for (const until = Date.now() + 100_000; ; ) {
        const run = await store.findRun(ref.runId);
        if (run?.status && isTerminal(run.status)) break;
        if (Date.now() > until) {
          const events = await store.readEvents(ref.runId);
          const work = await store.work.list(ref.runId);
          throw new Error(`the run has not ended: ${JSON.stringify(work)} ${types(events).join(' ')}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      return checkedLog(store, ref.runId, artifacts);
    },
    async run(text, start) {
      return bench.ended(await bench.start(text, start));
    },
    async close() {
      await runtime.close();
      await store.close();
      await database?.drop();
    },
  };
  return bench;
}

/** The whole log, after it proved to be legal and its chain unbroken. */
export async function checkedLog(
  store: PostgresStore,
  runId: string,
  artifacts?: ArtifactStore,
): Promise<LedgerRecord[]> {
  const events: LedgerRecord[] = [];
  for (;;) {
    const page = await store.readEvents(runId, { afterSeq: events.at(-1)?.runSeq ?? 0, limit: 10_000 });
    events.push(...page);
    if (page.length < 10_000) break;
  }
  const { violations } = foldWithReport(initialState(runId, { keepFinished: true }), events);
  if (violations.length > 0) throw new Error(`the log is not legal: ${JSON.stringify(violations)}`);
  const run = await store.findRun(runId);
  const verdict = verifyChain(events, { chainHash: run!.chainHead, lastSeq: run!.lastSeq });
  if (!verdict.ok) throw new Error(`the chain is broken: ${JSON.stringify(verdict)}`);
  await checkReplay(store, events, artifacts);
  const rows = await store.work.list(runId);
  if (rows.length > 0) throw new Error(`an ended run has work: ${JSON.stringify(rows)}`);
  return events;
}

/** Decided again from its record, the run comes to the same decisions. */
async function checkReplay(
  store: PostgresStore,
  events: readonly LedgerRecord[],
  artifacts: ArtifactStore | undefined,
): Promise<void> {
  const { sha256 } = events[0]!.payload!['planRef'] as { sha256: string };
  const stored = await store.work.findPlan(sha256);
  const { plan } = parsePlan(stored!.body);
  const log = events.map(({ proof: _proof, ...record }) => record);
  let values: Record<string, unknown> = {};
  for (;;) {
    const result = replay(plan, log, values);
    if (!('need' in result)) {
      if (!result.ok) throw new Error(`decided again it differs: ${JSON.stringify(result.difference)}`);
      return;
    }
    if (!artifacts) return;
    values = await fetchValues(artifacts, result.need, values);
  }
}

export const types = (events: readonly { eventType: string }[]): string[] => events.map((event) => event.eventType);

/** A playbook of the given steps. */
export const playbook = (workflow: string, more = ''): string =>
  `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, version: "1"}\n${more}workflow:\n${workflow}`;
