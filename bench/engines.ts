import { startTemporal } from '../test/servers/temporal.ts';
import {
  type EngineContender,
  openAdapter,
  openByHand,
  openNative,
  type Shape,
  type StoreTimes,
} from './engines/contenders.ts';
import { atMost, type BenchOptions, type BenchReport, benchServer, median, quantile } from './harness.ts';
import { lineOfSteps, parallelLoop } from './steps/runledger.ts';

const line = (count: number, runsAtOnce = 1): Shape => ({
  title: runsAtOnce === 1 ? `a line of ${count} steps` : `${runsAtOnce} lines of ${count} steps at once`,
  playbook: lineOfSteps(count),
  count,
  lanes: 1,
  runsAtOnce,
});
const LINE = line(50);
const SHAPES: readonly Shape[] = [
  LINE,
  { title: 'a loop of 100, 10 at once', playbook: parallelLoop(100, 10), count: 100, lanes: 10, runsAtOnce: 1 },
  line(10, 32),
];
const SINGLE = line(1);

interface Sample {
  readonly shape: string;
  readonly contender: string;
  readonly round: number;
  readonly millis: number;
}

/**
 * The same plans on the native engine and on Temporal, and the same activities in a workflow written by hand. Everybody
 * has a turn in every round, in another order each time, so that a busy machine is as bad for all of them.
 */
export async function enginesBench({ quick, progress }: BenchOptions): Promise<BenchReport> {
  progress('starting servers');
  const postgres = await benchServer();
  const temporal = await startTemporal();
  const times: StoreTimes = new Map();
  const open: EngineContender[] = [];
  try {
    const place = { target: postgres.target, folder: postgres.folder, temporal };
    const byHand = await openByHand(place);
    open.push(byHand);
    const adapter = await openAdapter(place, times);
    open.push(adapter);
    open.push(await openNative(place));
    const rounds = quick ? 3 : 10;
    const samples: Sample[] = [];
    const storeTimes: StoreTimes[] = [];
    for (let round = 0; round <= rounds; round += 1) {
      for (const shape of SHAPES) {
        for (const contender of rotated(open, round)) {
          progress(`round ${round}/${rounds}: ${shape.title}, ${contender.name}`);
          times.clear();
          const millis = await timeOf(() => runAll(contender, shape));
          // The first round warms up.
          if (round === 0) continue;
          samples.push({ shape: shape.title, contender: contender.name, round, millis });
          if (contender === adapter && shape === LINE) storeTimes.push(new Map(times));
        }
      }
    }
    const latencies = await latencyOf(open, quick ? 20 : 100, progress);
    const ratios = SHAPES.map(({ title }) => ({ title, ratio: ratioOf(samples, title, adapter, byHand) }));
    return {
      tables: [
        { title: 'steps per second, median of the rounds', rows: throughput(samples, open) },
        { title: 'one step, from the call that starts the run to its end, ms', rows: latencies },
        {
          title: 'where a step of a line spends its time on Temporal, ms',
          rows: shares(samples, storeTimes, adapter, byHand),
        },
      ],
      goals: ratios.map(({ title, ratio }) => atMost(`${title}: time with the adapter against by hand`, ratio, 2)),
      figures: { samples, latencies, storeTimes: storeTimes.map((each) => Object.fromEntries(each)) },
    };
  } finally {
    for (const contender of open.reverse()) await contender.close();
    await temporal.stop();
    await postgres.close();
  }
}

const rotated = <T>(list: readonly T[], by: number): T[] => list.map((_, i) => list[(i + by) % list.length] as T);

async function runAll(contender: EngineContender, shape: Shape): Promise<void> {
  await Promise.all(Array.from({ length: shape.runsAtOnce }, () => contender.run(shape)));
}

async function timeOf(task: () => Promise<void>): Promise<number> {
  const from = performance.now();
  await task();
  return performance.now() - from;
}

function millisOf(samples: readonly Sample[], shape: string, contender: EngineContender): number[] {
  return samples.filter((one) => one.shape === shape && one.contender === contender.name).map(({ millis }) => millis);
}

/** The median of the ratios of rounds, each of which was one after the other. */
function ratioOf(samples: readonly Sample[], shape: string, left: EngineContender, right: EngineContender): number {
  const [mine, theirs] = [millisOf(samples, shape, left), millisOf(samples, shape, right)];
  return median(mine.map((millis, i) => millis / (theirs[i] as number)));
}

function throughput(samples: readonly Sample[], open: readonly EngineContender[]) {
  return SHAPES.map(({ title, count, runsAtOnce }) => ({
    shape: title,
    ...Object.fromEntries(
      open.map((contender) => [
        contender.name,
        Math.round((count * runsAtOnce * 1000) / median(millisOf(samples, title, contender))),
      ]),
    ),
  }));
}

async function latencyOf(open: readonly EngineContender[], runs: number, progress: BenchOptions['progress']) {
  const found = new Map(open.map((contender) => [contender, [] as number[]]));
  for (let i = 0; i < runs; i += 1) {
    progress(`latency ${i + 1}/${runs}`);
    for (const contender of rotated(open, i)) found.get(contender)!.push(await timeOf(() => contender.run(SINGLE)));
  }
  return open.map((contender) => {
    const all = found.get(contender)!;
    return { engine: contender.name, p50: quantile(all, 0.5), p95: quantile(all, 0.95) };
  });
}

/** By hand is what Temporal itself takes; beyond it are the store's verbs, and what is left is the rest of our code. */
function shares(
  samples: readonly Sample[],
  storeTimes: readonly StoreTimes[],
  adapter: EngineContender,
  byHand: EngineContender,
) {
  const perStep = (contender: EngineContender): number => median(millisOf(samples, LINE.title, contender)) / LINE.count;
  const verbs = [...new Set(storeTimes.flatMap((each) => [...each.keys()]))];
  const byVerb = verbs
    .map((verb) => {
      const each = storeTimes.map((times) => times.get(verb) ?? { calls: 0, millis: 0 });
      return {
        part: `store: ${verb}`,
        'ms per step': median(each.map(({ millis }) => millis)) / LINE.count,
        'calls per step': median(each.map(({ calls }) => calls)) / LINE.count,
      };
    })
    .filter((row) => row['ms per step'] >= 0.01)
    .sort((a, b) => b['ms per step'] - a['ms per step']);
  const [whole, temporal] = [perStep(adapter), perStep(byHand)];
  const stored = byVerb.reduce((sum, row) => sum + row['ms per step'], 0);
  return [
    { part: 'a step with the adapter', 'ms per step': whole },
    { part: 'Temporal (an activity by hand)', 'ms per step': temporal },
    ...byVerb,
    { part: 'rendering, folding, larger payloads, our workflow', 'ms per step': whole - temporal - stored },
  ];
}
