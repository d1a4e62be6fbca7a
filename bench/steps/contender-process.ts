// One contender in a process of its own, asked over IPC
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from '../harness.ts';
import { type Contender, type OpenContender, type Setup, STEPS } from './contender.ts';
import { cpuParts } from './cpu-parts.ts';

const OPEN: Readonly<Record<string, () => Promise<OpenContender>>> = {
  runledger: async () => (await import('./runledger.ts')).openRunledger,
  dbos: async () => (await import('./dbos.ts')).openDbos,
  'graphile-worker': async () => (await import('./graphile-worker.ts')).openGraphileWorker,
  openworkflow: async () => (await import('./openworkflow.ts')).openOpenWorkflow,
  restate: async () => (await import('./restate.ts')).openRestate,
};

/** The monotonic clock of the machine, which all processes share. */
const now = (): number => Number(process.hrtime.bigint()) / 1e6;

let contender: Contender | undefined;
const errors: string[] = [];
const firsts = new Map<string, (at: number) => void>();
/** When every hundredth step was called. */
const marks: number[] = [];
let calls = 0;

/** What the parent may ask for. */
const VERBS = {
  async open({ name, ...setup }: Omit<Setup, 'onFirstStep' | 'onStep' | 'onError'> & { readonly name: string }) {
    const open = await (OPEN[name] as () => Promise<OpenContender>)();
    contender = await open({
      ...setup,
      onError: (text) => void errors.push(text),
      onStep() {
        if (calls % 100 === 0) marks.push(now());
        calls += 1;
      },
      onFirstStep(id) {
        const at = now();
        const waiting = firsts.get(id);
        if (waiting) waiting(at);
        else if (setup.role === 'worker') process.send?.({ first: id, at });
      },
    });
  },

  /** Runs one after the other, so many at once, for so long. */
  async measure({ concurrency, ms }: { concurrency: number; ms: number }) {
    const latencies: number[] = [];
    const from = now();
    await Promise.all(
      Array.from({ length: concurrency }, async () => {
        while (now() - from < ms) {
          const before = now();
          await contender!.run(randomUUID());
          latencies.push(now() - before);
        }
      }),
    );
    const steps = latencies.length * STEPS;
    const rate = steps / ((now() - from) / 1000);
    return { steps, rate, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) };
  },

  /** The same with a profiler: busy microseconds per step by part. */
  async profile(given: { concurrency: number; ms: number }) {
    let steps = 0;
    const parts = await cpuParts(async () => {
      ({ steps } = await VERBS.measure(given));
    });
    return { steps, parts: Object.fromEntries(Object.entries(parts).map(([part, micros]) => [part, micros / steps])) };
  },

  /** From the request to the first call of a step, one run at a time on an idle system. */
  async first({ count, ms }: { count: number; ms: number }) {
    const took: number[] = [];
    const until = now() + ms;
    for (let i = 0; i < count && (i < 3 || now() < until); i++) {
      const id = randomUUID();
      const first = new Promise<number>((resolve) => firsts.set(id, resolve));
      const from = now();
      await Promise.all([contender!.run(id), first.then((at) => took.push(at - from))]);
      firsts.delete(id);
      await sleep(15 + Math.random() * 10);
    }
    return took;
  },

  async start({ id }: { id: string }) {
    const at = now();
    await contender!.start(id);
    return at;
  },

  async startMany({ ids }: { ids: readonly string[] }) {
    await Promise.all(ids.map((id) => contender!.start(id)));
  },

  async runOne({ id }: { id: string }) {
    const from = now();
    await contender!.run(id);
    return now() - from;
  },

  async tell() {
    const told = { marks: [...marks], calls, errors: [...errors], maxRss: process.resourceUsage().maxRSS * 1024 };
    marks.length = 0;
    return told;
  },

  async close() {
    await contender?.close();
  },
};

export type Verbs = typeof VERBS;

process.on('message', (message: { ask: number; verb: keyof Verbs; given: never }) => {
  const { ask, verb, given } = message;
  VERBS[verb](given).then(
    (answer: unknown) => {
      process.send?.({ ask, answer }, () => {
        if (verb === 'close') process.exit(0);
      });
    },
    (error: unknown) => process.send?.({ ask, error: error instanceof Error ? error.stack : String(error) }),
  );
});
// Without the parent there is nobody to work for.
process.on('disconnect', () => process.exit(0));
