import Type from 'typebox';
import { describe, expect, expectTypeOf, test, vi } from 'vitest';
import { AppError } from '../contracts/errors.ts';
import { toolSuite } from '../testing/tool.suite.ts';
import { callContext } from './call-context.fixture.ts';
import { type DeclaredEffect, defineTool, toolFailure } from './define-tool.ts';
import type { EffectClass, Tool, ToolOutcome } from './tool.ts';

const Ticket = Type.Object({
  operation: Type.Union([Type.Literal('get'), Type.Literal('close')]),
  id: Type.Integer(),
  note: Type.Optional(Type.String()),
});

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function tickets(run: (id: number) => unknown = (id) => ({ id })): Tool {
  return defineTool({
    kind: 'tickets',
    input: Ticket,
    effect: ({ operation }) => (operation === 'get' ? 'read' : 'write'),
    describe: ({ operation, id }) => ({ operation, target: `ticket ${id}` }),
    run: ({ id }) => run(id),
    key: ({ operation, id }, place) => `tickets:${operation}:${id}:${place.entity.replace(/@\d+$/, '')}`,
    reconcile: async ({ id }) => ({ found: 'happened', result: { id } }),
    reverse: ({ id }) => ({ kind: 'tickets', operation: 'reopen', id }),
  });
}

toolSuite('a tool of the user', {
  open: () => tickets((id) => (id === 9 ? sleep(60_000) : { id })),
  cases: [
    { title: 'a read', input: { operation: 'get', id: 1 }, effect: 'read' },
    {
      title: 'a write',
      input: { operation: 'close', id: 2, note: 'hunter2' },
      effect: 'write',
      hidden: ['hunter2'],
    },
  ],
  slow: { operation: 'get', id: 9 },
});

const read = { operation: 'get', id: 1 };
const write = { operation: 'close', id: 1 };
const failing = (error: unknown): Tool =>
  tickets(() => {
    throw error;
  });
const call = (tool: Tool, input: Record<string, unknown>): Promise<ToolOutcome> => tool.call(input, callContext());

describe('results', () => {
  test('what run returns is the result, and nothing is null', async () => {
    expect(await call(tickets(), read)).toEqual({ status: 'ok', result: { id: 1 } });
    expect(
      await call(
        tickets(async () => undefined),
        read,
      ),
    ).toEqual({ status: 'ok', result: null });
  });

  test('a result that JSON cannot say is refused with its place', async () => {
    const outcome = await call(
      tickets(() => ({ rows: [{ at: new Date() }] })),
      read,
    );
    expect(outcome).toMatchObject({ status: 'error', error: { kind: 'tickets', code: 'RESULT_NOT_JSON' } });
    expect(outcome.status === 'error' && outcome.error.message).toContain('/rows/0/at');
  });
});

describe('failures', () => {
  test('a stated failure is kept as it is and means that a write did not happen', async () => {
    const error = toolFailure({ code: 'BUSY', message: 'try later', retryable: true, retryAfterMs: 500 });
    expect(await call(failing(error), write)).toEqual({
      status: 'error',
      error: { kind: 'tickets', code: 'BUSY', message: 'try later', retryable: true, retryAfterMs: 500 },
    });
  });

  test('a write that throws anything else may have happened', async () => {
    expect(await call(failing(new TypeError('boom')), write)).toMatchObject({
      error: {
        code: 'TypeError',
        message: expect.stringMatching(/^boom \(src\/tools\/define-tool\.test\.ts:\d+\)$/),
        unknown: true,
      },
    });
    expect(await call(failing(new TypeError('boom')), read)).not.toHaveProperty('error.unknown');
  });

  test('codes of errors are kept', async () => {
    const system = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
    expect(await call(failing(system), read)).toMatchObject({ error: { code: 'ECONNREFUSED' } });
    expect(await call(failing(new AppError('SECRET_NOT_FOUND', 'no x')), read)).toMatchObject({
      error: { kind: 'tickets', code: 'SECRET_NOT_FOUND' },
    });
    expect(await call(failing('text'), read)).toMatchObject({ error: { code: 'TASK_FAILED', message: 'text' } });
  });
});

describe('aborting', () => {
  const aborted = async (tool: Tool, input: Record<string, unknown>): Promise<ToolOutcome> => {
    const controller = new AbortController();
    const outcome = tool.call(input, callContext({ signal: controller.signal }));
    controller.abort(new AppError('TASK_TIMEOUT', 'too slow'));
    return outcome;
  };

  test('what ends by itself soon after the abort counts', async () => {
    expect(
      await aborted(
        tickets(() => sleep(20).then(() => 'done')),
        write,
      ),
    ).toEqual({ status: 'ok', result: 'done' });
  });

  test('a write that had begun may have happened, a read has not', async () => {
    const endless = tickets(() => sleep(60_000));
    vi.useFakeTimers();
    try {
      const outcomes = Promise.all([aborted(endless, write), aborted(endless, read)]);
      await vi.advanceTimersByTimeAsync(1500);
      const [written, asked] = await outcomes;
      expect(written).toMatchObject({ error: { kind: 'timeout', unknown: true } });
      expect(asked).toMatchObject({ error: { kind: 'timeout' } });
      expect(asked).not.toHaveProperty('error.unknown');
    } finally {
      vi.useRealTimers();
    }
  });
});

test('a class that cannot be told is a write', () => {
  const tool = defineTool({
    kind: 'x',
    input: Type.Object({}),
    effect: () => {
      throw new Error('no idea');
    },
    run: () => 1,
  });
  expect(tool.classify({})).toBe('write');
});

test.each([
  [{ kind: 'No Such', input: Type.Object({}), run: (): number => 1 }, /must look like/],
  [{ kind: 'x', input: Type.String(), run: (): number => 1 }, /must be a Type.Object/],
  [{ kind: 'x', input: Type.Object({}) }, /has no run/],
])('a definition that is wrong is refused when it is made', (definition, message) => {
  expect(() => defineTool({ effect: 'read', ...definition } as never)).toThrow(message);
});

test('types follow the schema, and a wrong option does not compile', () => {
  defineTool({
    kind: 'typed',
    input: Ticket,
    effect: (input) => {
      expectTypeOf(input).toEqualTypeOf<{ operation: 'get' | 'close'; id: number; note?: string }>();
      return 'read';
    },
    run: (input) => {
      expectTypeOf(input.id).toEqualTypeOf<number>();
      // @ts-expect-error the schema has no such field
      input.nope;
      return { closed: true };
    },
    reverse: (input, result) => {
      expectTypeOf(result).toEqualTypeOf<unknown>();
      return { kind: 'typed', id: input.id };
    },
  });
  // Never called: each is refused at run time too.
  void (() => {
    // @ts-expect-error no class of that name
    defineTool({ kind: 'typed', input: Ticket, effect: 'writes', run: () => 1 });
    // @ts-expect-error undeclared is for code that somebody else wrote
    defineTool({ kind: 'typed', input: Ticket, effect: 'undeclared', run: () => 1 });
    // @ts-expect-error the effect must be stated
    defineTool({ kind: 'typed', input: Ticket, run: () => 1 });
    // @ts-expect-error a misspelt option
    defineTool({ kind: 'typed', input: Ticket, effect: 'read', run: () => 1, reconcil: () => 1 });
    const base = { kind: 'typed', input: Ticket, effect: 'read', run: () => 1 } as const;
    // @ts-expect-error a reconciliation is one of three answers
    defineTool({ ...base, reconcile: async () => ({ found: 'yes' }) });
  });
  expectTypeOf<DeclaredEffect>().toExtend<EffectClass>();
});

test('a definition that is not right is refused when it is made, and says what is wrong', () => {
  const good = { kind: 'mine', input: Type.Object({}), effect: 'write', run: () => 1 };
  const define = (change: Record<string, unknown>): (() => Tool) => {
    return () => defineTool({ ...good, ...change } as unknown as Parameters<typeof defineTool>[0]);
  };
  expect(define({})().kind).toBe('mine');
  for (const [change, message] of [
    [{ effect: 'wirte' }, `effect of the tool 'mine' is "wirte", but must be compute, read, write or a function`],
    [{ effect: 'undeclared' }, 'must be compute, read, write'],
    [{ effect: undefined }, "effect of the tool 'mine' is missing"],
    [{ reconcil: () => 1 }, "unknown field 'reconcil'; did you mean 'reconcile'?"],
    [{ key: 'ticket' }, "key of the tool 'mine' must be a function"],
    [{ honoursKey: true }, 'honoursKey'],
    [{ run: undefined }, 'has no run'],
    [{ input: {} }, 'Type.Object'],
    [{ kind: 'My Tool' }, 'must look like'],
  ] as const) {
    expect(define(change), JSON.stringify(change)).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID', message: expect.stringContaining(message) }),
    );
  }
});

test('what an effect function gives in error counts as a write, which leaves a receipt', () => {
  const effect = (() => 'wirte') as unknown as () => DeclaredEffect;
  expect(defineTool({ kind: 'mine', input: Type.Object({}), effect, run: () => 1 }).classify({})).toBe('write');
});
