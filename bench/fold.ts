import { evolve, fold } from '../src/kernel/evolve.ts';
import { initialState } from '../src/kernel/state.ts';
import { toSnapshot } from '../src/kernel/to-snapshot.ts';
import { recordLog, runStarted, type ShortEvent } from '../src/testing/record-log.ts';

export interface BenchResult {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
}

/** A long run of no-op steps: six events a step, each step scheduled by the arc of the one before. */
function linearRun(steps: number): ShortEvent[] {
  const events: ShortEvent[] = [runStarted('bench')];
  for (let i = 0; i < steps; i++) {
    const step = `step_${i}`;
    const cause = i === 0 ? { kind: 'entry' } : { kind: 'arc', arrivals: [{ from: `step_${i - 1}`, arc: 0 }] };
    events.push(
      { type: 'StepScheduled', step, payload: { step, stepIndex: i, tool: 'noop', cause } },
      { type: 'StepStarted', step, payload: { leaseOwner: 'worker-1' } },
      { type: 'TaskStarted', step, entity: `${step}/task_0:1`, payload: { task: 'task_0', tool: 'noop' } },
      { type: 'TaskDone', step, entity: `${step}/task_0:1`, payload: { attempts: 1, outcome: { status: 'ok' } } },
      { type: 'StepCompleted', step, payload: { durationMs: 1, result: { value: null } } },
      {
        type: 'NextEvaluated',
        step,
        payload: {
          boundary: 'step.done',
          mode: 'exclusive',
          matched: [{ step: `step_${i + 1}`, arc: 0 }],
          selected: [{ step: `step_${i + 1}`, arc: 0 }],
        },
      },
    );
  }
  return events;
}

const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;

function rate(count: number, work: () => void, rounds: number, prepare: () => void = () => {}): number {
  const rates: number[] = [];
  for (let i = 0; i < rounds; i++) {
    prepare();
    const before = performance.now();
    work();
    rates.push(count / ((performance.now() - before) / 1000));
  }
  return median(rates);
}

export async function foldBench(options: { readonly quick?: boolean } = {}): Promise<BenchResult[]> {
  const rounds = options.quick ? 5 : 15;
  const log = recordLog('bench', linearRun(20_000));
  const empty = new Set<string>();
  const engine = () => initialState('bench', { keepFinished: false, results: empty, lineage: empty });
  const view = () => initialState('bench', { keepFinished: true });
  const results: BenchResult[] = [];
  const measure = (name: string, start: typeof view) => {
    results.push({
      name: `evolve, one event at a time, ${name}`,
      value: Math.round(
        rate(
          log.length,
          () => {
            let state = start();
            for (const event of log) state = evolve(state, event);
          },
          rounds,
        ),
      ),
      unit: 'events/s',
    });
    results.push({
      name: `fold, in batches of 1000, ${name}`,
      value: Math.round(
        rate(
          log.length,
          () => {
            let state = start();
            for (let at = 0; at < log.length; at += 1000) state = fold(state, log.slice(at, at + 1000));
          },
          rounds,
        ),
      ),
      unit: 'events/s',
    });
  };
  measure('engine', engine);
  measure('view', view);
  const tail = log.slice(-6000);
  const late = fold(view(), log.slice(0, -6000));
  const early = rate(6000, () => void log.slice(0, 6000).reduce(evolve, view()), rounds * 3);
  // Reading the old version first undoes the round before it outside of the measured time.
  const rewind = () => void (late.open.size + late.done.size + late.names.size + late.tokens.size + late.unrouted.size);
  const atEnd = rate(6000, () => void tail.reduce(evolve, late), rounds * 3, rewind);
  results.push({
    name: 'evolve at step 19,000 against step 1, view',
    value: Number((atEnd / early).toFixed(2)),
    unit: 'ratio',
  });
  const whole = fold(view(), log);
  results.push({
    name: 'snapshot of 20,000 steps',
    value: Math.round(rate(1, () => void toSnapshot(whole), rounds)),
    unit: 'snapshots/s',
  });
  return results;
}
