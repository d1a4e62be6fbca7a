import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { compileSync } from '../src/compiler/compile.ts';
import type { PlanRef } from '../src/contracts/values.ts';
import { createNativeRuntime, type NativeRuntime } from '../src/runtime/create-native-runtime.ts';
import { PostgresStore } from '../src/store/postgres-store.ts';
import { noopTool } from '../src/tools/noop/noop-tool.ts';
import type { ArtifactStore } from '../src/tools/tool.ts';
import { type BenchOptions, type BenchReport, benchServer, median, quantile } from './harness.ts';

const STEPS = 10;
const SCOPE = { tenantId: 'acme', projectId: 'bench', environmentId: 'bench' };

/** A line of no-op steps. */
function lineOfSteps(count: number): string {
  const steps = Array.from({ length: count }, (_, i) => {
    const next = i + 1 < count ? `, next: {arcs: [{step: s${i + 1}}]}` : '';
    return `- {step: s${i}, tool: {kind: noop, result: ${i}}${next}}`;
  });
  return `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: line${count}, version: "1"}\nworkflow:\n${steps.join('\n')}\n`;
}

const noArtifacts: ArtifactStore = {
  name: 'none',
  put: () => Promise.reject(new Error('nothing here is large')),
  get: () => Promise.reject(new Error('nothing here is large')),
};

interface Bench {
  readonly store: PostgresStore;
  readonly runtime: NativeRuntime;
  readonly planRef: PlanRef;
  run(): Promise<number>;
  close(): Promise<void>;
}

/** Runs are followed in the process: their end is told by the engine's own commit, not by a poll. */
async function openBench(
  target: { host: string; port: number; user: string; database: string },
  options: { runAhead: boolean; steps?: number },
): Promise<Bench> {
  const store = await PostgresStore.open({ ...target, migrate: true });
  const waiting = new Map<string, () => void>();
  const runtime = createNativeRuntime({
    store,
    tools: [noopTool()],
    artifacts: noArtifacts,
    runAhead: options.runAhead,
    worker: { concurrency: 256, onError: (error, unit) => console.error(unit, error) },
    onEnd: (runId) => waiting.get(runId)?.(),
  });
  const result = compileSync({ text: lineOfSteps(options.steps ?? STEPS), file: 'line.yaml' });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  const planRef = await runtime.plans.keep(result);
  return {
    store,
    runtime,
    planRef,
    async run() {
      const runId = randomUUID();
      const from = performance.now();
      const ended = new Promise<void>((resolve) => waiting.set(runId, resolve));
      await runtime.engine.startRun(planRef, { ...SCOPE, runId, targetAdapter: 'native' });
      await ended;
      waiting.delete(runId);
      return performance.now() - from;
    },
    async close() {
      await runtime.close();
      await store.close();
    },
  };
}

interface Sample {
  readonly name: string;
  readonly concurrency: number;
  readonly rate: number;
  readonly p50: number;
  readonly p99: number;
  readonly cpu: number;
}

async function measure(name: string, bench: Bench, concurrency: number, ms: number): Promise<Sample> {
  const latencies: number[] = [];
  const phase = async (duration: number, record: boolean): Promise<number> => {
    const from = performance.now();
    let runs = 0;
    await Promise.all(
      Array.from({ length: concurrency }, async () => {
        while (performance.now() - from < duration) {
          const took = await bench.run();
          if (record) latencies.push(took);
          runs += 1;
        }
      }),
    );
    return (runs * STEPS) / ((performance.now() - from) / 1000);
  };
  await phase(ms / 3, false);
  const before = process.cpuUsage();
  const rate = await phase(ms, true);
  const { user, system } = process.cpuUsage(before);
  const steps = latencies.length * STEPS;
  return {
    name,
    concurrency,
    rate,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    cpu: ((user + system) / 1e6 / steps) * 1000,
  };
}

/** Time from the request to the first event of the first step, one run at a time on an idle system. */
async function firstStep(bench: Bench, count: number): Promise<{ p50: number; p99: number }> {
  const took: number[] = [];
  for (let i = 0; i < count; i++) {
    const runId = randomUUID();
    const from = performance.now();
    await bench.runtime.engine.startRun(bench.planRef, { ...SCOPE, runId, targetAdapter: 'native' });
    // The worker of this process has begun the step when startRun answers.
    took.push(performance.now() - from);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return { p50: quantile(took, 0.5), p99: quantile(took, 0.99) };
}

/** Our own steps; peers are measured beside them where they are installed. */
export async function stepsBench({ quick, progress }: BenchOptions): Promise<BenchReport> {
  const server = await benchServer();
  try {
    const [rounds, ms] = quick ? [1, 2500] : [3, 6000];
    const samples: Sample[] = [];
    const modes = [
      { name: 'runledger', runAhead: true },
      { name: 'runledger, run-ahead off', runAhead: false },
    ];
    const benches = await Promise.all(
      modes.map(async (mode) => ({ ...mode, bench: await openBench(server.target, mode) })),
    );
    const client = new pg.Client({ ...server.target });
    await client.connect();
    const size = async (): Promise<{ events: number; bytes: number }> => {
      const { rows } = await client.query<{ events: string; bytes: string }>(
        `select (select count(*) from runledger.run_events) as events, pg_database_size(current_database()) as bytes`,
      );
      return { events: Number(rows[0]!.events), bytes: Number(rows[0]!.bytes) };
    };
    const before = await size();
    let steps = 0;
    for (let round = 1; round <= rounds; round++) {
      for (const concurrency of [1, 64]) {
        for (const { name, bench } of benches) {
          progress(`round ${round}/${rounds}: ${name} at ${concurrency}`);
          samples.push(await measure(name, bench, concurrency, ms));
        }
      }
    }
    const { rows } = await client.query<{ n: string }>(
      `select count(*) as n from runledger.run_events where type = 22`,
    );
    steps = Number(rows[0]!.n);
    const after = await size();
    progress('start to first step');
    const first = await firstStep(benches[0]!.bench, quick ? 50 : 200);
    for (const { bench } of benches) await bench.close();
    await client.end();
    const of = (name: string, concurrency: number, pick: (s: Sample) => number): number =>
      median(samples.filter((s) => s.name === name && s.concurrency === concurrency).map(pick));
    const table = [1, 64].flatMap((concurrency) =>
      modes.map(({ name }) => ({
        contender: name,
        concurrency,
        'steps/s': Math.round(of(name, concurrency, (s) => s.rate)),
        'run p50 ms': of(name, concurrency, (s) => s.p50),
        'run p99 ms': of(name, concurrency, (s) => s.p99),
        'cpu s / 1000 steps': of(name, concurrency, (s) => s.cpu),
      })),
    );
    const cost = {
      'events/step': (after.events - before.events) / steps,
      'bytes/step': Math.round((after.bytes - before.bytes) / steps),
      'start to first step p50 ms': first.p50,
      p99: first.p99,
    };
    return {
      tables: [
        { title: `no-op steps, ${STEPS} per run`, rows: table },
        { title: 'cost', rows: [cost] },
      ],
      goals: [],
      figures: { samples, cost },
    };
  } finally {
    await server.close();
  }
}
