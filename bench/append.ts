import { type Contender, emmett, floor, plainTransaction, runledger } from './append-contenders.ts';
import { fillLog } from './fill-log.ts';
import {
  atLeast,
  type BenchOptions,
  type BenchReport,
  benchServer,
  installPeers,
  median,
  quantile,
} from './harness.ts';
import { createDatabase } from './steps/compare.ts';

interface Sample {
  readonly contender: string;
  readonly producers: number;
  readonly batch: number;
  readonly rate: number;
  readonly p50: number;
  readonly p99: number;
}

async function measure(contender: Contender, producers: number, batch: number, ms: number): Promise<Sample> {
  const writers = await Promise.all(Array.from({ length: producers }, () => contender.producer(batch)));
  // A short time of its own fills connections, plans and caches.
  const latencies: number[] = [];
  const phase = async (duration: number, record: boolean): Promise<number> => {
    const from = performance.now();
    let count = 0;
    await Promise.all(
      writers.map(async (write) => {
        while (performance.now() - from < duration) {
          const before = performance.now();
          await write();
          if (record) latencies.push(performance.now() - before);
          count += batch;
        }
      }),
    );
    return count / ((performance.now() - from) / 1000);
  };
  await phase(ms / 4, false);
  const rate = await phase(ms, true);
  return {
    contender: contender.name,
    producers,
    batch,
    rate,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
  };
}

/** Single appends by 1 to 256 producers and batches, all contenders in turn in every round. */
export async function appendBench({ quick, progress }: BenchOptions): Promise<BenchReport> {
  progress('installing peers');
  installPeers();
  const server = await benchServer();
  try {
    const contenders = [
      await runledger(server.target),
      await plainTransaction(server.target),
      await emmett(server.target),
      await floor(server.target),
    ];
    const shapes = [1, 16, 64, 256].map((producers) => ({ producers, batch: 1 })).concat({ producers: 8, batch: 100 });
    const [rounds, ms] = quick ? [1, 1200] : [5, 4000];
    // The compiler of this process needs some ten thousand calls before it knows what runs often. Whoever came first would
    // pay for that in its first measurement.
    for (const contender of contenders) {
      progress(`warming up: ${contender.name}`);
      await measure(contender, 64, 1, quick ? 1500 : 4000);
    }
    const samples: Sample[] = [];
    for (let round = 1; round <= rounds; round++) {
      for (const { producers, batch } of shapes) {
        for (const contender of contenders) {
          progress(`round ${round}/${rounds}: ${contender.name}, ${producers} producers, ${batch} per append`);
          samples.push(await measure(contender, producers, batch, ms));
        }
      }
    }
    const of = (name: string, producers: number, batch = 1): number =>
      median(
        samples
          .filter((s) => s.contender === name && s.producers === producers && s.batch === batch)
          .map((s) => s.rate),
      );
    for (const contender of contenders) await contender.close();
    const growth = await growthRates(server, quick, progress);
    const ours = 'runledger';
    return {
      tables: [
        { title: 'events per second (median of rounds), latency of one append in ms', rows: rows(samples, contenders) },
        { title: 'rate of runledger at 256 producers as the table grows', rows: growth },
      ],
      goals: [
        atLeast('64 producers, against the plain transaction', of(ours, 64) / of('plain transaction', 64), 6),
        atLeast('64 producers, against emmett', of(ours, 64) / of('emmett-postgresql', 64), 6),
        atLeast('256 producers, against the plain transaction', of(ours, 256) / of('plain transaction', 256), 8),
        atLeast('256 producers, against emmett', of(ours, 256) / of('emmett-postgresql', 256), 8),
        atLeast('256 producers, against the floor', of(ours, 256) / of('floor (insert only)', 256), 0.6),
        atLeast('a lone append, against the plain transaction', of(ours, 1) / of('plain transaction', 1), 1),
        atLeast(
          'full table against empty table',
          (growth.at(-1)?.['events/s'] ?? 0) / (growth[0]?.['events/s'] ?? 1),
          0.85,
        ),
      ],
      figures: { samples, growth },
    };
  } finally {
    await server.close();
  }
}

function rows(samples: readonly Sample[], contenders: readonly Contender[]): Record<string, string | number>[] {
  const shapes = [...new Map(samples.map((s) => [`${s.producers}/${s.batch}`, s])).values()];
  return shapes.flatMap(({ producers, batch }) => {
    const mine = (name: string) =>
      samples.filter((s) => s.contender === name && s.producers === producers && s.batch === batch);
    const base = median(mine('runledger').map((s) => s.rate));
    return contenders.map(({ name }) => {
      const rates = mine(name).map((s) => s.rate);
      return {
        producers,
        batch,
        contender: name,
        'events/s': Math.round(median(rates)),
        spread: `${Math.round(Math.min(...rates))}..${Math.round(Math.max(...rates))}`,
        p50: median(mine(name).map((s) => s.p50)),
        p99: median(mine(name).map((s) => s.p99)),
        'runledger is': `${(base / median(rates)).toFixed(2)} x`,
      };
    });
  });
}

/** The same load on an empty log of its own, and after that was filled. Each point is the median of three. */
async function growthRates(
  server: Awaited<ReturnType<typeof benchServer>>,
  quick: boolean,
  progress: (text: string) => void,
): Promise<{ 'events in the log': number; 'events/s': number }[]> {
  const target = await createDatabase(server, 'append_growth');
  const contender = await runledger(target);
  const sizes = quick ? [0, 300_000] : [0, 1_000_000, 5_000_000];
  const out: { 'events in the log': number; 'events/s': number }[] = [];
  await measure(contender, 64, 1, quick ? 300 : 1000);
  for (const size of sizes) {
    const events = await fillLog(target, size, progress);
    progress(`measuring with ${events} events in the log`);
    const rates: number[] = [];
    for (let i = 0; i < (quick ? 1 : 3); i++) rates.push((await measure(contender, 256, 1, quick ? 1200 : 4000)).rate);
    out.push({ 'events in the log': events, 'events/s': Math.round(median(rates)) });
  }
  await contender.close();
  return out;
}
