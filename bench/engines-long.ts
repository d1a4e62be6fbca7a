import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { compileSync } from '../src/compiler/compile.ts';
import type { LedgerRecord } from '../src/contracts/envelope.ts';
import { folderArtifacts } from '../src/engines/native/folder-artifacts.fixture.ts';
import { foldWithReport } from '../src/kernel/evolve.ts';
import { initialState } from '../src/kernel/state.ts';
import { createTemporalRuntime } from '../src/runtime/create-temporal-runtime.ts';
import { PostgresStore } from '../src/store/postgres-store.ts';
import { verifyChain } from '../src/store/verify-chain.ts';
import { noopTool } from '../src/tools/noop/noop-tool.ts';
import { startTemporal } from '../test/servers/temporal.ts';
import { type BenchOptions, type BenchReport, benchServer, type Goal } from './harness.ts';
import { parallelLoop, ringOfSteps } from './steps/runledger.ts';

const SCOPE = { tenantId: 'acme', projectId: 'bench', environmentId: 'bench' };
const PAGE = 5000;

/** Runs that are longer than any history may be: they end, in one execution after the other, and their logs are whole. */
export async function enginesLongBench({ quick, progress }: BenchOptions): Promise<BenchReport> {
  const postgres = await benchServer();
  const temporal = await startTemporal();
  const store = await PostgresStore.open({ ...postgres.target, migrate: true });
  const runtime = await createTemporalRuntime({
    store,
    tools: [noopTool()],
    artifacts: folderArtifacts(postgres.folder),
    temporal: { address: temporal.address, namespace: temporal.namespace, taskQueue: 'bench-long' },
    worker: { concurrency: 64 },
    onError: (error, what) => console.error(what, error),
  });
  const connection = await Connection.connect({ address: temporal.address });
  const client = new Client({ connection, namespace: temporal.namespace });
  const long = async (title: string, playbook: string, count: number, type: string) => {
    const compiled = compileSync({ text: playbook, file: 'bench.yaml' });
    if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems));
    const planRef = await runtime.plans.keep(compiled);
    const runId = randomUUID();
    const from = performance.now();
    const ref = await runtime.engine.startRun(planRef, { ...SCOPE, runId, targetAdapter: 'temporal' });
    const telling = setInterval(async () => {
      const run = await store.findRun(runId);
      progress(`${title}: ${run?.lastSeq ?? 0} events in ${Math.round((performance.now() - from) / 1000)} s`);
    }, 10_000);
    await client.workflow.getHandle(ref.workflowId).result();
    clearInterval(telling);
    const seconds = (performance.now() - from) / 1000;
    const log = await wholeLog(store, runId);
    const { violations } = foldWithReport(initialState(runId, { keepFinished: true }), log);
    const done = log.filter(({ eventType }) => eventType === type).length;
    const isWhole = log.at(-1)?.eventType === 'RunCompleted' && violations.length === 0 && verifyChain(log).ok;
    const links = await store.postgres.query<{ n: string }>(
      { text: 'select count(*) as n from runledger.run_refs join runledger.runs using (run_key) where run_id = $1' },
      [runId],
    );
    return {
      run: title,
      seconds,
      'steps/s': done / seconds,
      done,
      wanted: count,
      events: log.length,
      executions: Number(links[0]?.n),
      whole: isWhole ? 'yes' : 'NO',
    };
  };
  try {
    const [steps, iterations] = quick ? [2000, 2000] : [20_000, 10_000];
    const rows = [
      await long(`${iterations} iterations, 32 at once`, parallelLoop(iterations, 32), iterations, 'LoopIterationDone'),
      await long(`${steps} steps`, ringOfSteps(steps), steps, 'StepCompleted'),
    ];
    const goals = rows.flatMap(({ run, done, wanted, whole, executions }): Goal[] => [
      {
        name: `${run}: done, and the log is whole`,
        goal: `${wanted}`,
        measured: done,
        met: done === wanted && whole === 'yes',
      },
      { name: `${run}: executions`, goal: '> 1', measured: executions, met: executions > 1 },
    ]);
    return { tables: [{ title: 'long runs on Temporal', rows }], goals, figures: rows };
  } finally {
    await runtime.close();
    await connection.close();
    await store.close();
    await temporal.stop();
    await postgres.close();
  }
}

async function wholeLog(store: PostgresStore, runId: string): Promise<LedgerRecord[]> {
  const log: LedgerRecord[] = [];
  for (;;) {
    const page = await store.readEvents(runId, { afterSeq: log.at(-1)?.runSeq ?? 0, limit: PAGE });
    log.push(...page);
    if (page.length < PAGE) return log;
  }
}
