import fc from 'fast-check';
import type { Arc, Plan, Task } from '../contracts/plan.ts';
import { buildPlan, type ShortStep } from './build-plan.ts';

const CONDITIONS = [
  undefined,
  undefined,
  "{{ event.name == 'step.done' }}",
  "{{ event.name == 'step.failed' }}",
  "{{ event.name != 'step.skipped' }}",
  '{{ ctx.n is defined }}',
  '{{ s0 is defined and s0.k is defined }}',
];

/** Arcs go forward, so that every run ends; the few that go back stop when their step has run three times. */
const step = (index: number, count: number): fc.Arbitrary<ShortStep> => {
  const forward = index + 1 < count ? fc.integer({ min: index + 1, max: count - 1 }) : fc.constant(index);
  const arc = fc.record({ to: forward, when: fc.constantFrom(...CONDITIONS), set: fc.boolean(), args: fc.boolean() });
  const back = fc.option(fc.integer({ min: 0, max: index }), { nil: undefined, freq: 5 });
  return fc
    .record({
      mode: fc.constantFrom('exclusive' as const, 'inclusive' as const),
      arcs: fc.array(arc, { maxLength: index + 1 < count ? 3 : 0 }),
      back,
      join: fc.boolean(),
      admit: fc.constantFrom(undefined, undefined, undefined, '{{ ctx.n is not defined }}', 'false'),
      failure: fc.constantFrom(
        undefined,
        undefined,
        { mode: 'best_effort' as const },
        { retry: { attempts: 2, delay: 1 } },
        { mode: 'fail_fast' as const, retry: { attempts: 3 } },
      ),
      loop: fc.constantFrom(
        undefined,
        undefined,
        undefined,
        { in: [], iterator: 'x', mode: 'sequential' as const },
        { in: [1, 2, 3], iterator: 'x', mode: 'sequential' as const },
        { in: '{{ [1, 2, 3, 4, 5] }}', iterator: 'x', mode: 'parallel' as const, maxInFlight: 2 },
      ),
      tasks: fc.integer({ min: 0, max: 2 }),
      retryTask: fc.boolean(),
    })
    .map(({ mode, arcs, back, join, admit, failure, loop, tasks, retryTask }): ShortStep => {
      const name = `s${index}`;
      const list: Arc[] = arcs.map(({ to, when, set, args }) => ({
        step: `s${to}`,
        ...(when === undefined ? {} : { when }),
        ...(set ? { set: { 'ctx.n': index } } : {}),
        ...(args ? { args: { from: name } } : {}),
      }));
      if (back !== undefined) {
        const set = { [`ctx.rounds.${name}`]: `{{ (ctx.rounds.${name} or 0) + 1 }}` };
        list.push({ step: `s${back}`, when: `{{ (ctx.rounds.${name} or 0) < 2 }}`, set });
      }
      return {
        stepId: name,
        ...(list.length > 0 ? { next: { mode, arcs: list } } : {}),
        ...(join && index > 0 ? { join: 'all' as const } : {}),
        ...(admit === undefined
          ? {}
          : { admit: { rules: [{ when: admit === 'false' ? false : admit, allow: true }, { allow: false }] } }),
        ...(failure === undefined ? {} : { failure }),
        ...(loop === undefined ? {} : { loop }),
        tasks: Array.from({ length: tasks }, (_, i) => taskOf(`t${i}`, retryTask && i === 0)),
      };
    });
};

function taskOf(name: string, retries: boolean): Task {
  const rules = [{ when: "{{ outcome.status == 'error' }}", then: { do: 'retry' as const, attempts: 2, delay: 1 } }];
  return { name, kind: 'tool', with: {}, ...(retries ? { policy: { rules, onUnmatched: 'fail' } } : {}) };
}

/** Any plan of the shapes that the language has, small enough to be read when it fails a property. */
export const arbitraryPlan: fc.Arbitrary<Plan> = fc
  .integer({ min: 1, max: 6 })
  .chain((count) =>
    fc.record({
      steps: fc.tuple(...Array.from({ length: count }, (_, i) => step(i, count))),
      final: fc.boolean(),
      noNext: fc.boolean(),
    }),
  )
  .map(({ steps, final, noNext }) =>
    buildPlan([...steps, ...(final ? [{ stepId: 'last' }] : [])], {
      ...(final ? { finalStep: 'last' } : {}),
      ...(noNext ? { noNextIsError: true } : {}),
      limits: { maxSteps: 300 },
      workload: {},
    }),
  );
