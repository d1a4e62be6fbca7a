import pg from 'pg';
import { CATALOGUE } from '../src/contracts/catalogue.ts';
import {
  atLeast,
  atMost,
  type BenchOptions,
  type BenchReport,
  benchServer,
  type Goal,
  installPeers,
  median,
  peerVersions,
} from './harness.ts';
import {
  ENTRIES,
  measure,
  type Opened,
  OURS,
  OURS_PLAIN,
  openAll,
  type Sample,
  type Server,
  stepParts,
} from './steps/compare.ts';
import { STEPS } from './steps/contender.ts';
import { ContenderClient } from './steps/contender-client.ts';
import { type FirstStep, firstStepAcross, firstStepHere } from './steps/first-step.ts';
import { type LongRun, longRun } from './steps/long-run.ts';
import { type ManyWorkers, manyWorkers } from './steps/many-workers.ts';
import { type LoopResult, loopOn } from './steps/parallel-loop.ts';
import { onSlowDisk } from './steps/slow-disk.ts';

/** How much of everything: the quick form ends within a minute. */
const SIZES = {
  quick: { rounds: 1, ms: 650, firsts: 40, firstMs: 600, long: 2000, longRounds: 1, loop: 2000, runs: 40, slowMs: 600 },
  full: {
    rounds: 5,
    ms: 4000,
    firsts: 200,
    firstMs: 6000,
    long: 10_000,
    longRounds: 3,
    loop: 10_000,
    runs: 400,
    slowMs: 3000,
  },
} as const;
type Sizes = (typeof SIZES)['quick' | 'full'];

/** Restate's steps are in another process than its server anyway. The queues of the others wait for a poll. */
const ACROSS = [OURS, 'dbos', 'openworkflow', 'graphile-worker (jobs)'];
const SLOW_LABELS = [OURS, OURS_PLAIN, 'dbos', 'restate'];
const MEMORY_LIMIT_MB = 300;

/** Steps that do nothing, against the peers, on one Postgres, everybody in turn. */
export async function stepsBench({ quick, progress }: BenchOptions): Promise<BenchReport> {
  const sizes = quick ? SIZES.quick : SIZES.full;
  progress('installing peers');
  installPeers();
  const server = await benchServer();
  try {
    progress('opening contenders');
    const opened = await openAll(server, ENTRIES);
    const samples = await rounds(server, opened, sizes, progress);
    const events = await eventsPerStep(opened[0]!);
    const parts = await whereTimeGoes(server, opened, sizes, progress);
    const firsts = await firstSteps(opened, quick ? [OURS] : ACROSS, sizes, progress);
    for (const { client } of opened) await client.close();
    progress(`a run of ${sizes.long} steps`);
    const long = await longRun(server, sizes.long, sizes.longRounds);
    const loops: LoopResult[] = [];
    for (const workers of [1, 4]) {
      progress(`a loop of ${sizes.loop} iterations on ${workers} worker processes`);
      loops.push(await loopOn(server, workers, sizes.loop));
    }
    progress('ten worker processes');
    const many = await manyWorkers(server, 10, sizes.runs);
    const slow = await onSlowDisk(
      { labels: SLOW_LABELS, concurrencies: quick ? [1] : [1, 64], rounds: quick ? 1 : 3, ms: sizes.slowMs },
      progress,
    );
    return report({ samples, parts, events, firsts, long, loops, many, slow });
  } finally {
    await ContenderClient.closeAll();
    await server.close();
  }
}

type Progress = BenchOptions['progress'];

async function rounds(server: Server, opened: readonly Opened[], sizes: Sizes, progress: Progress): Promise<Sample[]> {
  const samples: Sample[] = [];
  for (let round = 1; round <= sizes.rounds; round++) {
    for (const concurrency of [1, 64]) {
      for (const each of opened) {
        progress(`round ${round}/${sizes.rounds}: ${each.entry.label} at ${concurrency}`);
        samples.push(await measure(server, each, concurrency, sizes.ms));
      }
    }
  }
  return samples;
}

type Parts = readonly {
  readonly contender: string;
  readonly concurrency: number;
  readonly parts: Record<string, number>;
}[];

async function whereTimeGoes(
  server: Server,
  opened: readonly Opened[],
  sizes: Sizes,
  progress: Progress,
): Promise<Parts> {
  const found: { contender: string; concurrency: number; parts: Record<string, number> }[] = [];
  for (const [at, concurrency] of [
    [0, 1],
    [1, 1],
    [0, 64],
  ] as const) {
    const each = opened[at]!;
    progress(`where the time goes: ${each.entry.label} at ${concurrency}`);
    const parts = await stepParts(server, each, concurrency, sizes.ms);
    found.push({ contender: each.entry.label, concurrency, parts });
  }
  return found;
}

/** All events of the runs, those of the run itself included, per step. */
async function eventsPerStep({ target }: Opened): Promise<number> {
  const client = new pg.Client({ ...target });
  await client.connect();
  try {
    const { rows } = await client.query<{ events: string; steps: string }>(
      'select count(*) as events, count(*) filter (where type = $1) as steps from runledger.run_events',
      [CATALOGUE.StepCompleted.code],
    );
    return Number(rows[0]!.events) / Number(rows[0]!.steps);
  } finally {
    await client.end();
  }
}

async function firstSteps(
  opened: readonly Opened[],
  across: readonly string[],
  sizes: Sizes,
  progress: Progress,
): Promise<FirstStep[]> {
  const found: FirstStep[] = [];
  for (const each of opened) {
    progress(`start to first step: ${each.entry.label}`);
    found.push(await firstStepHere(each, sizes.firsts, sizes.firstMs));
  }
  for (const each of opened) {
    if (!across.includes(each.entry.label)) continue;
    progress(`start to first step across processes: ${each.entry.label}`);
    // The worker of the comparison would take the work first.
    await each.client.close();
    found.push(await firstStepAcross(each, sizes.firsts, sizes.firstMs));
  }
  return found;
}

interface Found {
  readonly samples: readonly Sample[];
  readonly parts: Parts;
  readonly events: number;
  readonly firsts: readonly FirstStep[];
  readonly long: LongRun;
  readonly loops: readonly LoopResult[];
  readonly many: ManyWorkers;
  readonly slow: readonly Sample[] | string;
}

function report(found: Found): BenchReport {
  const { samples, parts, events, firsts, long, loops, many, slow } = found;
  const slowRows = typeof slow === 'string' ? [{ contender: slow }] : table(slow);
  return {
    tables: [
      { title: `no-op steps, ${STEPS} per run (medians of rounds)`, rows: table(samples) },
      { title: 'the same with 1 ms added to every fsync', rows: slowRows },
      { title: 'where the time of a step goes, microseconds', rows: partRows(parts) },
      { title: 'start to first step on an idle system, ms', rows: firsts.map((first) => ({ ...first })) },
      {
        title: `one run of ${long.steps} steps: microseconds per step in each tenth`,
        rows: [Object.fromEntries(long.tenths.map((tenth, i) => [`${i + 1}.`, tenth]))],
      },
      {
        title: 'a parallel loop, and many workers',
        rows: [
          ...loops.map(({ workers, iterations, rate, peakBytes, lockShare, errors }) => ({
            what: `loop of ${iterations}`,
            workers,
            'per second': Math.round(rate),
            'peak MB': Math.round(peakBytes / 1e6),
            'waiting for locks': lockShare,
            errors: errors.length,
          })),
          {
            what: `${many.runs} runs`,
            workers: many.workers,
            'per second': Math.round(many.rate),
            errors: many.errors.length,
          },
        ],
      },
    ],
    goals: goals(found),
    figures: { versions: peerVersions(), eventsPerStep: events, ...found },
  };
}

/** A row per part, the largest first; a column per way to run. */
function partRows(found: Parts): Record<string, string | number>[] {
  const names = [...new Set(found.flatMap(({ parts }) => Object.keys(parts)))];
  const rows = names.map((part) => ({
    part,
    ...Object.fromEntries(
      found.map(({ contender, concurrency, parts }) => [
        `${contender} at ${concurrency}`,
        Math.round(parts[part] ?? 0),
      ]),
    ),
  }));
  return rows.sort((a, b) => Number(Object.values(b).at(-1)) - Number(Object.values(a).at(-1)));
}

function table(samples: readonly Sample[]): Record<string, string | number>[] {
  const keys = [...new Map(samples.map((s) => [`${s.concurrency}/${s.contender}`, s])).values()];
  return keys.map(({ contender, concurrency }) => {
    const mine = samples.filter((s) => s.contender === contender && s.concurrency === concurrency);
    const rates = mine.map((s) => s.rate);
    return {
      contender,
      concurrency,
      'steps/s': Math.round(median(rates)),
      spread: `${Math.round(Math.min(...rates))}..${Math.round(Math.max(...rates))}`,
      'run p50 ms': median(mine.map((s) => s.p50)),
      'run p99 ms': median(mine.map((s) => s.p99)),
      'cpu s / 1000 steps': median(mine.map((s) => s.cpu ?? Number.NaN)),
      'of it Postgres': median(mine.map((s) => s.cpuPostgres ?? Number.NaN)),
      'bytes/step': Math.round(median(mine.map((s) => s.bytesPerStep))),
    };
  });
}

/** The median of the ratios of each round, since both were measured within seconds of each other. */
function ratio(samples: readonly Sample[], ours: string, theirs: string, concurrency: number): number {
  const rates = (name: string) =>
    samples.filter((s) => s.contender === name && s.concurrency === concurrency).map((s) => s.rate);
  const others = rates(theirs);
  return median(rates(ours).map((rate, i) => rate / others[i]!));
}

function goals({ samples, firsts, long, loops, many, slow }: Found): Goal[] {
  const first = (where: FirstStep['where']) =>
    firsts.find((f) => f.contender === OURS && f.where === where)?.p50 ?? Number.NaN;
  const slowSamples = typeof slow === 'string' ? [] : slow;
  const [one, four] = loops as [LoopResult, LoopResult];
  const peak = Math.max(...loops.map((loop) => loop.peakBytes)) / 1e6;
  return [
    atLeast('at 64, against DBOS', ratio(samples, OURS, 'dbos', 64), 4),
    atLeast('at 64, against openworkflow', ratio(samples, OURS, 'openworkflow', 64), 4),
    atLeast('at 64, against Restate', ratio(samples, OURS, 'restate', 64), 1.5),
    ...atOne('at 1', samples),
    ...atOne('at 1 with 1 ms per fsync', slowSamples),
    atMost('start to first step in process, p50 ms', first('in process'), 2),
    atMost('start to first step across processes, p50 ms', first('across processes'), 5),
    atMost(`last tenth against first tenth of ${long.steps} steps`, long.growth, 1.2),
    atMost(`peak MB of a worker in a loop of ${one.iterations}`, peak, MEMORY_LIMIT_MB),
    atLeast('the loop on four worker processes, against one', four.rate / one.rate, 0.9),
    atMost('errors of ten workers and of the loops', many.errors.length + one.errors.length + four.errors.length, 0),
  ];
}

function atOne(name: string, samples: readonly Sample[]): Goal[] {
  return [
    atLeast(`${name}, against DBOS`, ratio(samples, OURS, 'dbos', 1), 4),
    atLeast(`${name}, against Restate`, ratio(samples, OURS, 'restate', 1), 3),
    atLeast(`${name}, run-ahead off, against DBOS`, ratio(samples, OURS_PLAIN, 'dbos', 1), 1.5),
    atLeast(`${name}, run-ahead off, against Restate`, ratio(samples, OURS_PLAIN, 'restate', 1), 1),
  ];
}
