import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AppError } from '../contracts/errors.ts';
import { jsonProblem } from '../lib/canonical-json.ts';
import { deepFreeze } from '../lib/deep-freeze.ts';
import { createToolRegistry } from '../tools/registry.ts';
import type { CallContext, CallPlace, EffectClass, Tool, ToolOutcome } from '../tools/tool.ts';
import { callContext } from './call-context.ts';

/** One call of a tool and what is known of it. */
export interface ToolCase {
  readonly title: string;
  readonly input: Record<string, unknown>;
  readonly effect: EffectClass;
  /** The kind of the error, for a call that fails. */
  readonly fails?: string;
  /** Texts in the input that neither a policy, an approver nor the effect's key may show. */
  readonly hidden?: readonly string[];
}

/** What the suite needs to know of a tool. */
export interface ToolSubject {
  open(): Tool | Promise<Tool>;
  /** At least one that succeeds, and one per class that the tool has. */
  readonly cases: readonly ToolCase[];
  /** A call that lasts half a minute or more unless it is aborted; left out where no call can wait. */
  readonly slow?: Record<string, unknown>;
  /** How soon after an abort the outcome must be there. */
  readonly abortWithinMs?: number;
  /** Secrets, artifacts and whatever else the calls of the cases need. */
  context?(): Parameters<typeof callContext>[0];
}

const CLASSES: readonly EffectClass[] = ['compute', 'read', 'write', 'undeclared'];

/** The behaviour that every tool must show. Call it at the top level of a vitest file. */
export function toolSuite(name: string, subject: ToolSubject): void {
  const { cases, slow, abortWithinMs = 5000 } = subject;
  const inputs = cases.map(({ title, input, effect, hidden = [] }) => ({
    title,
    input: deepFreeze(structuredClone(input)),
    effect,
    hidden,
  }));

  describe(`${name}: what every tool does`, () => {
    let tool: Tool;
    beforeAll(async () => {
      tool = await subject.open();
    });
    afterAll(() => tool?.close?.());

    const context = (more: Partial<CallContext> = {}): CallContext => callContext({ ...subject.context?.(), ...more });
    const place: CallPlace = context().place;
    const registry = (): ReturnType<typeof createToolRegistry> => createToolRegistry([tool]);
    const prepared = (input: Record<string, unknown>): Record<string, unknown> => registry().prepare(tool, input);
    const fieldsDropped = (input: Record<string, unknown>): Record<string, unknown>[] =>
      Object.keys(input)
        .map((dropped) => Object.fromEntries(Object.entries(input).filter(([field]) => field !== dropped)))
        .filter((fewer) => accepts(tool, fewer));

    test('its input is closed: an unknown field is refused by name and no call is made', async () => {
      expect(tool.input).toMatchObject({ type: 'object', additionalProperties: false });
      for (const { input } of inputs) {
        const outcome = await registry().call(tool.kind, { ...input, no_such_field: 1 }, context());
        expect(outcome).toMatchObject({ status: 'error', error: { kind: 'input', code: 'INVALID_STEP_SCHEMA' } });
        expect(outcome.status === 'error' && outcome.error.message).toContain('no_such_field');
      }
    });

    test.each(inputs)('$title: the class depends on the fields alone and changes nothing', ({ input, effect }) => {
      expect(tool.classify(prepared(input))).toBe(effect);
      expect(tool.classify(prepared(input))).toBe(effect);
      for (const fewer of fieldsDropped(input)) expect(CLASSES).toContain(tool.classify(prepared(fewer)));
    });

    test.each(inputs)('$title: the proposed action shows names, never values', ({ input, hidden }) => {
      const action = tool.propose(prepared(input));
      expect(action.operation).not.toBe('');
      expect(action.target).not.toBe('');
      expect(jsonProblem(action)).toBeUndefined();
      const shown = JSON.stringify(action);
      for (const text of hidden) expect(shown).not.toContain(text);
      for (const fewer of fieldsDropped(input)) expect(tool.propose(prepared(fewer)).operation).not.toBe('');
    });

    test.each(inputs)('$title: the key of a write is the same for every attempt and differs by place', (given) => {
      const { input, effect, hidden } = given;
      if (effect === 'write') expect(tool.effectKey).toBeDefined();
      if (!tool.effectKey || effect === 'compute' || effect === 'read') return;
      const keyAt = (at: Partial<CallPlace>): string => tool.effectKey?.(prepared(input), { ...place, ...at }) ?? '';
      const key = keyAt({ entity: 'fetch/3/get:1@1', attempt: 1 });
      expect(key).not.toBe('');
      expect(keyAt({ entity: 'fetch/3/get:1@2', attempt: 2 })).toBe(key);
      expect(keyAt({ entity: 'fetch/4/get:1@1' })).not.toBe(key);
      for (const text of hidden) expect(key).not.toContain(text);
    });

    test.each(cases)('$title: one outcome that is JSON, and lines of text in the log', async ({ input, fails }) => {
      const lines: string[] = [];
      const frozen = deepFreeze(structuredClone(input));
      const outcome = await tool.call(prepared(frozen), context({ log: (_stream, line) => lines.push(line) }));
      expectOutcome(outcome);
      if (fails === undefined) expect(outcome).toMatchObject({ status: 'ok' });
      else expect(outcome).toMatchObject({ status: 'error', error: { kind: fails } });
      for (const line of lines) expect(line).not.toMatch(/\n/);
    });

    test('calls at the same time do not meet', async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, (_, i) => {
          const { input } = cases[i % cases.length]!;
          return tool.call(prepared(input), context());
        }),
      );
      outcomes.forEach((outcome, i) => {
        expectOutcome(outcome);
        expect(outcome.status).toBe(cases[i % cases.length]!.fails === undefined ? 'ok' : 'error');
      });
    });

    test('a call that is aborted before it starts does not start', async () => {
      for (const { input } of inputs) {
        const signal = AbortSignal.abort(new AppError('CANCELLED', 'the run was cancelled'));
        const outcome = await tool.call(prepared(input), context({ signal }));
        expect(outcome).toMatchObject({ status: 'error', error: { kind: 'cancelled', code: 'CANCELLED' } });
      }
    });

    if (slow) {
      const abortedCall = async (reason: AppError, afterMs: number): Promise<ToolOutcome> => {
        const controller = new AbortController();
        const call = tool.call(prepared(slow), context({ signal: controller.signal }));
        await new Promise((resolve) => setTimeout(resolve, afterMs));
        const started = performance.now();
        controller.abort(reason);
        const outcome = await call;
        expect(performance.now() - started).toBeLessThan(abortWithinMs);
        expectOutcome(outcome);
        return outcome;
      };

      test('a call that runs out of time ends soon, and may be tried again', async () => {
        for (const afterMs of [0, 50, 400]) {
          expect(await abortedCall(new AppError('TASK_TIMEOUT', 'too slow'), afterMs)).toMatchObject({
            status: 'error',
            error: { kind: 'timeout', code: 'TASK_TIMEOUT', retryable: true },
          });
        }
      });

      test('a cancelled call ends soon and is not tried again; the tool goes on working', async () => {
        const outcome = await abortedCall(new AppError('CANCELLED', 'the run was cancelled'), 100);
        expect(outcome).toMatchObject({ error: { kind: 'cancelled', code: 'CANCELLED', retryable: false } });
        const working = cases.find(({ fails }) => fails === undefined)!;
        expect(await tool.call(prepared(working.input), context())).toMatchObject({ status: 'ok' });
      });
    }

    test('closing twice is closing once, and a call afterwards still has an outcome', async () => {
      const other = await subject.open();
      await other.close?.();
      await other.close?.();
      expectOutcome(await createToolRegistry([other]).call(other.kind, cases[0]!.input, context()));
      await other.close?.();
    });
  });
}

function accepts(tool: Tool, input: Record<string, unknown>): boolean {
  try {
    createToolRegistry([tool]).prepare(tool, input);
    return true;
  } catch {
    return false;
  }
}

function expectOutcome(outcome: ToolOutcome): void {
  expect(jsonProblem(outcome)).toBeUndefined();
  expect(['ok', 'error']).toContain(outcome.status);
  if (outcome.status === 'ok') {
    expect(outcome).toHaveProperty('result');
    expect(outcome).not.toHaveProperty('error');
    return;
  }
  const { kind, code, message, retryable } = outcome.error;
  for (const text of [kind, code, message]) expect(text).toMatch(/./);
  expect(typeof retryable).toBe('boolean');
  expect(message).not.toMatch(/\n\s+at /);
}
