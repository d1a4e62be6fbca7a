import type { RunEventRecord } from '../src/contracts/envelope.ts';
import type { Plan } from '../src/contracts/plan.ts';
import type { Command, EventDraft } from '../src/kernel/commands.ts';
import { engineState } from '../src/kernel/compile-plan.ts';
import { decide, eventsOf } from '../src/kernel/decide.ts';
import { evolve } from '../src/kernel/evolve.ts';
import type { RunState } from '../src/kernel/state.ts';
import { buildPlan, type ShortStep } from '../src/testing/build-plan.ts';
import { runStarted, TEST_CONTEXT } from '../src/testing/record-log.ts';
import { simulate } from '../src/testing/simulator.ts';
import type { BenchResult } from './fold.ts';

const NOW = '2026-01-01T00:00:00.000Z';
const STEPS = 10_000;

/** A linear plan; with `templates` each arc has a condition over the step before, and passes it on. */
function linearPlan(templates: boolean): Plan {
  const steps = Array.from({ length: STEPS }, (_, i): ShortStep => {
    const step = `step_${i + 1}`;
    const arc = templates ? { step, when: `{{ step_${i}.n >= 0 }}`, args: { n: `{{ step_${i}.n + 1 }}` } } : { step };
    return {
      stepId: `step_${i}`,
      ...(i + 1 < STEPS ? { next: { mode: 'exclusive' as const, arcs: [arc] } } : {}),
    };
  });
  return buildPlan(steps);
}

/** The records of decided events, as cheap as they can be made: the bench is about decisions. */
function recorded(drafts: readonly EventDraft[], from: number): RunEventRecord[] {
  return drafts.map((draft, i) => ({
    eventId: 'bench',
    runId: 'bench',
    ...TEST_CONTEXT,
    planId: 'plan',
    planVersion: '1',
    ...draft,
    engineAttemptId: 1,
    emittedAt: NOW,
    idempotencyKey: '',
    runSeq: from + i + 1,
    persistedAt: NOW,
  }));
}

/** Plays a linear run and measures the decisions by themselves, and together with folding what they decided. */
function play(plan: Plan, onStep: (index: number, decideMs: number) => void): void {
  let state: RunState = engineState(plan, 'bench');
  const take = (drafts: readonly EventDraft[]) => {
    for (const record of recorded(drafts, state.lastEventSeq)) state = evolve(state, record);
  };
  take(eventsOf(decide(plan, state, { type: 'start', started: runStarted('bench').payload ?? {}, now: NOW })));
  for (let i = 0; i < STEPS; i++) {
    const stepId = `step_${i}`;
    take([{ eventType: 'StepStarted', stepId, logicalAttemptId: 1 }]);
    const settled = { status: 'completed', result: { value: { n: i } } } as const;
    const command: Command = { type: 'stepSettled', stepId, attempt: 1, settled, now: NOW };
    const before = performance.now();
    const events = eventsOf(decide(plan, state, command));
    onStep(i, performance.now() - before);
    take(events);
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;

function measure(name: string, plan: Plan, rounds: number): BenchResult[] {
  const whole: number[] = [];
  const first: number[] = [];
  const last: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const times: number[] = [];
    play(plan, (index, ms) => {
      times[index] = ms;
    });
    whole.push(STEPS / (sum(times) / 1000));
    first.push(1000 / (sum(times.slice(0, 1000)) / 1000));
    last.push(1000 / (sum(times.slice(-1000)) / 1000));
  }
  return [
    { name: `decisions, ${name}`, value: Math.round(median(whole)), unit: 'decisions/s' },
    {
      name: `steps 9,000 to 10,000 against steps 1 to 1,000, ${name}`,
      value: Number((median(last) / median(first)).toFixed(2)),
      unit: 'ratio',
    },
  ];
}

export async function decideBench(options: { readonly quick?: boolean } = {}): Promise<BenchResult[]> {
  const rounds = options.quick ? 5 : 15;
  const plain = linearPlan(false);
  const templated = linearPlan(true);
  play(plain, () => {});
  play(templated, () => {});
  const small = buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b', next: ['c'] }, { stepId: 'c' }]);
  const runs = options.quick ? 500 : 2000;
  for (let i = 0; i < 200; i++) simulate(small);
  const before = performance.now();
  for (let i = 0; i < runs; i++) simulate(small);
  const rate = runs / ((performance.now() - before) / 1000);
  return [
    ...measure('linear plan', plain, rounds),
    ...measure('linear plan with conditions and args', templated, rounds),
    { name: 'simulated runs of three steps', value: Math.round(rate), unit: 'runs/s' },
  ];
}
