import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CATALOGUE, type EventType } from '../contracts/catalogue.ts';
import type { RunEventRecord } from '../contracts/envelope.ts';
import type { Plan } from '../contracts/plan.ts';
import { isTerminal } from '../contracts/states.ts';
import { arbitraryPlan } from '../testing/arbitrary-plan.ts';
import { buildPlan } from '../testing/build-plan.ts';
import type { SimulatedCall, SimulatedOutcome } from '../testing/simulated-call.ts';
import { type SimulatorOptions, simulate } from '../testing/simulator.ts';
import { engineState } from './compile-plan.ts';
import { stepNameOf } from './entity-path.ts';
import { fold, foldWithReport } from './evolve.ts';
import { openWork } from './open-work.ts';
import { replay } from './replay.ts';
import { initialState, type RunState } from './state.ts';
import { runWord, stepSituation, stepWord, substatus } from './status-words.ts';
import type { toSnapshot } from './to-snapshot.ts';

const weather = fc.record({
  seed: fc.nat(),
  failing: fc.constantFrom(0, 0, 0.2, 0.6),
  crashRate: fc.constantFrom(undefined, 0.15),
  duplicateRate: fc.constantFrom(undefined, 0.3),
  waiting: fc.constantFrom(0, 0.2),
  workers: fc.constantFrom(1, 3, 100),
  signals: fc.array(
    fc.record({
      afterMs: fc.nat({ max: 2000 }),
      signalType: fc.constantFrom('PAUSE', 'RESUME', 'RESUME', 'CANCEL', 'RETRY_STEP', 'SKIP_STEP', 'NONSENSE'),
      stepId: fc.constantFrom('s0', 's1', 's2', 's1#2'),
    }),
    { maxLength: 4 },
  ),
});
type Weather = typeof weather extends fc.Arbitrary<infer T> ? T : never;

/** Every pause is ended in the end, so that every run can. */
function optionsOf(plan: Plan, sky: Weather): SimulatorOptions {
  const { failing, waiting, signals, crashRate, duplicateRate, ...rest } = sky;
  const chance = (call: SimulatedCall, salt: number) =>
    ((call.stepId.length * 31 +
      call.stepId.charCodeAt(1) * 7 +
      call.attempt * 13 +
      call.logicalAttempt * 17 +
      (call.index ?? 0) * 5 +
      salt +
      rest.seed) %
      97) /
    97;
  const tool = (call: SimulatedCall): SimulatedOutcome => {
    if (!call.woken && chance(call, 3) < waiting) {
      const outcome = chance(call, 5) < 0.2 ? 'rejected' : 'approved';
      return { wait: { kind: 'approval', outcome }, ms: 100 };
    }
    return chance(call, 1) < failing ? { error: { code: 'E' } } : { ok: { k: call.index ?? 1 } };
  };
  return {
    ...rest,
    ...(crashRate === undefined ? {} : { crashRate }),
    ...(duplicateRate === undefined ? {} : { duplicateRate }),
    // A plan of steps that only route has nothing to script.
    scripts: plan.steps.some(({ tasks }) => tasks.some(({ kind }) => kind === 'tool')) ? { tool } : {},
    maxEvents: 20_000,
    signals: [...signals, ...[1, 2, 3, 4, 5].map((i) => ({ afterMs: 3000 * i, signalType: 'RESUME' }))],
  };
}

const play = (plan: Plan, sky: Weather) => simulate(plan, optionsOf(plan, sky));

test('NE-5b random plans under random schedules, crashes, duplicates and signals end in a legal state, and no step ran unscheduled', () => {
  fc.assert(
    fc.property(arbitraryPlan, weather, (plan, sky) => {
      const { log, snapshot, state } = play(plan, sky);
      expect(isTerminal(snapshot.status)).toBe(true);
      expect(foldWithReport(initialState('run-1', { keepFinished: true }), log).violations).toEqual([]);
      expect(openWork(state)).toEqual([]);
      noTokenIsLost(log, snapshot.status);
      nothingRanUnscheduled(log);
      successMeansEveryStepSettled(log, snapshot);
    }),
    { numRuns: 250 },
  );
});

/** Every token that an arc sent was taken by exactly one instance, unless the run failed or was cancelled. */
function noTokenIsLost(log: readonly RunEventRecord[], status: string): void {
  const sent = new Map<string, number>();
  const count = (key: string, by: number) => sent.set(key, (sent.get(key) ?? 0) + by);
  for (const { eventType, stepId, payload } of log) {
    if (eventType === 'NextEvaluated') {
      for (const { step, arc } of payload!['selected'] as { step: string; arc: number }[])
        count(`${stepId}-${arc}-${step}`, 1);
    }
    if (eventType !== 'StepScheduled' && eventType !== 'StepSkipped') continue;
    const { cause, step } = payload as {
      cause?: { kind: string; arrivals?: { from: string; arc: number }[] };
      step?: string;
    };
    for (const { from, arc } of cause?.arrivals ?? []) count(`${from}-${arc}-${step}`, -1);
  }
  for (const left of sent.values()) {
    expect(left).toBeGreaterThanOrEqual(0);
    if (status === 'COMPLETED') expect(left).toBe(0);
  }
}

/** NE-5b: a worker cannot start a step: every start follows a scheduling of that very attempt. */
function nothingRanUnscheduled(log: readonly RunEventRecord[]): void {
  const scheduled = new Set<string>();
  for (const { eventType, stepId, logicalAttemptId } of log) {
    const attempt = `${stepId}@${logicalAttemptId}`;
    if (eventType === 'StepScheduled') {
      expect(scheduled.has(attempt)).toBe(false);
      scheduled.add(attempt);
    }
    if (eventType === 'StepStarted') expect(scheduled.has(attempt)).toBe(true);
  }
}

/** RQ-2.2b: COMPLETED exactly if each instance succeeded, was skipped by plan, or failed and was handled. */
function successMeansEveryStepSettled(log: readonly RunEventRecord[], snapshot: ReturnType<typeof toSnapshot>): void {
  if (snapshot.status !== 'COMPLETED') return;
  const handled = new Set(
    (log.at(-1)?.payload?.['handledFailures'] as { stepId: string }[] | undefined)?.map(({ stepId }) => stepId),
  );
  for (const step of snapshot.steps) {
    if (step.status === 'FAILED') expect(handled.has(step.stepId)).toBe(true);
    else expect(['SUCCESS', 'SKIPPED']).toContain(step.status);
  }
}

/** Plans in which nothing races: no ctx, no failures. What runs is then decided by the plan alone. */
const calmPlan = fc
  .integer({ min: 2, max: 6 })
  .chain((count) =>
    fc.tuple(
      ...Array.from({ length: count }, (_, i) =>
        fc.record({
          mode: fc.constantFrom('exclusive' as const, 'inclusive' as const),
          arcs:
            i + 1 < count
              ? fc.uniqueArray(fc.integer({ min: i + 1, max: count - 1 }), { maxLength: 3 })
              : fc.constant<number[]>([]),
          join: fc.boolean(),
          skipped: fc.constantFrom(false, false, false, true),
          loop: fc.boolean(),
        }),
      ),
    ),
  )
  .map((steps) =>
    buildPlan(
      steps.map(({ mode, arcs, join, skipped, loop }, i) => ({
        stepId: `s${i}`,
        next: { mode, arcs: arcs.map((to) => ({ step: `s${to}` })) },
        ...(join && i > 0 ? { join: 'all' as const } : {}),
        ...(skipped ? { admit: { rules: [{ allow: false }] } } : {}),
        ...(loop ? { loop: { in: [1, 2, 3], iterator: 'x', mode: 'parallel' as const } } : {}),
      })),
    ),
  );

test('WE-1e in whatever order an engine runs things, the same steps run, are skipped and are joined', () => {
  const shape = (plan: Plan, seed: number, workers: number) =>
    simulate(plan, { seed, workers })
      .log.filter(({ eventType }) => /^(StepScheduled|StepSkipped|LoopDone|RunCompleted)$/.test(eventType))
      .map(({ eventType, payload }) => {
        const { step = '', cause } = payload as {
          step?: string;
          cause?: { arrivals?: { from: string; arc: number }[] };
        };
        const arrivals = cause?.arrivals?.map(({ from, arc }) => `${stepNameOf(from)}.${arc}`) ?? [];
        return `${eventType} ${step} ${arrivals.join(',')}`;
      })
      .sort();
  fc.assert(
    fc.property(calmPlan, fc.nat(), fc.nat(), (plan, one, other) => {
      expect(shape(plan, one, 1)).toEqual(shape(plan, other, 100));
    }),
    { numRuns: 150 },
  );
});

test('decide over any prefix of a recorded log gives the recorded next events', () => {
  fc.assert(
    fc.property(arbitraryPlan, weather, (plan, sky) => {
      const { log } = play(plan, sky);
      const result = replay(plan, log);
      expect(result).toMatchObject({ ok: true, events: log.length });
    }),
    { numRuns: 250 },
  );
});

test('replay names the first event that the kernel would not have written', () => {
  fc.assert(
    fc.property(arbitraryPlan, fc.nat(), (plan, pick) => {
      const { log } = simulate(plan);
      const routed = log.filter((event) => event.eventType === 'NextEvaluated');
      const chosen = routed[pick % Math.max(1, routed.length)];
      if (!chosen) return;
      const forged = log.map((event) =>
        event === chosen ? { ...event, payload: { ...event.payload, boundary: 'step.forged' } } : event,
      );
      expect(replay(plan, forged)).toMatchObject({ ok: false, difference: { runSeq: chosen.runSeq } });
    }),
    { numRuns: 60 },
  );
});

test('an engine’s lean state decides the same as one that keeps everything', () => {
  fc.assert(
    fc.property(arbitraryPlan, weather, (plan, sky) => {
      const { log } = play(plan, sky);
      const cut = log.slice(0, Math.floor(log.length / 2));
      const lean = fold(engineState(plan, 'run-1'), cut);
      const full = fold(initialState('run-1', { keepFinished: true, results: 'all', lineage: 'all' }), cut);
      expect(openWork(lean)).toEqual(openWork(full));
      expect(lean.ctx).toEqual(full.ctx);
      expect(lean.run).toEqual(full.run);
    }),
    { numRuns: 100 },
  );
});

/** The diagram of the queue's words, with the edges that the settled rules add. */
const RUN_EDGES = new Set([
  'queued>running',
  'queued>waiting_approval',
  'queued>failed_retryable',
  'queued>succeeded',
  'queued>failed_terminal',
  'queued>canceled',
  'running>waiting_approval',
  'running>succeeded',
  'running>failed_retryable',
  'running>failed_terminal',
  'running>canceled',
  'waiting_approval>running',
  'waiting_approval>failed_terminal',
  'waiting_approval>failed_retryable',
  'waiting_approval>canceled',
  'failed_retryable>running',
  'failed_retryable>waiting_approval',
  'failed_retryable>failed_terminal',
  // SKIP_STEP on the only step, while it waits for its retry.
  'failed_retryable>succeeded',
  'failed_retryable>canceled',
]);
const STEP_EDGES = new Set([
  'ready>running',
  'ready>succeeded',
  'ready>canceled',
  'ready>failed_terminal',
  'running>succeeded',
  'running>waiting_approval',
  'running>failed_retryable',
  'running>failed_terminal',
  'running>canceled',
  'waiting_approval>ready',
  'waiting_approval>failed_terminal',
  'waiting_approval>canceled',
  'failed_retryable>running',
  'failed_retryable>succeeded',
  'failed_retryable>canceled',
  'failed_retryable>ready',
  // RETRY_STEP, or the end of a pause that held a retry back, gives a step another attempt.
  'failed_terminal>ready',
  'failed_terminal>failed_retryable',
  'canceled>ready',
]);

test('RQ-2.1a RQ-2.2a the words of runs and steps follow their diagrams in every run', () => {
  fc.assert(
    fc.property(arbitraryPlan, weather, (plan, sky) => {
      let runWas: string | undefined;
      const stepsWere = new Map<string, string>();
      const look = (state: RunState) => {
        const word = runWord(state.run.status ?? 'PENDING', substatus(state));
        if (runWas !== undefined && runWas !== word) expect(RUN_EDGES).toContain(`${runWas}>${word}`);
        runWas = word;
        for (const step of state.open.values()) {
          const now = stepWord(stepSituation(state, step));
          const was = stepsWere.get(step.stepId);
          if (was !== undefined && was !== now) expect(STEP_EDGES).toContain(`${was}>${now}`);
          stepsWere.set(step.stepId, now);
        }
      };
      simulate(plan, { ...optionsOf(plan, sky), onAppend: look });
    }),
    { numRuns: 150 },
  );
});

test('NE-5a what the kernel decides comes from the control plane, what the pipeline records from a worker', () => {
  fc.assert(
    fc.property(arbitraryPlan, weather, (plan, sky) => {
      for (const { eventType } of play(plan, sky).log) {
        const { emitters } = CATALOGUE[eventType as EventType];
        const isFact = /^(Task|PolicyTask|StepStarted|LoopIterationStarted)/.test(eventType);
        if (isFact) expect(emitters).toEqual(['worker']);
      }
    }),
    { numRuns: 50 },
  );
});
