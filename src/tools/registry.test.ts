import Type from 'typebox';
import { describe, expect, test } from 'vitest';
import { AppError } from '../contracts/errors.ts';
import { callContext } from './call-context.fixture.ts';
import { defineTool } from './define-tool.ts';
import { createToolRegistry } from './registry.ts';
import type { Tool } from './tool.ts';

function weather(overrides: Partial<Tool> = {}): Tool {
  const tool = defineTool({
    kind: 'weather',
    input: Type.Object({ city: Type.String(), days: Type.Optional(Type.Integer({ minimum: 1 })) }),
    effect: 'read',
    run: ({ city, days = 1 }) => ({ city, days }),
  });
  return { ...tool, ...overrides };
}

const unavailable = (kind: string): string => {
  try {
    createToolRegistry([weather()]).get(kind);
  } catch (error) {
    expect(error).toMatchObject({ code: 'TOOL_UNAVAILABLE' });
    return (error as AppError).message;
  }
  throw new Error('found');
};

describe('looking a tool up', () => {
  test('by its kind', () => {
    const registry = createToolRegistry([weather()]);
    expect(registry.get('weather').kind).toBe('weather');
    expect(registry.kinds).toEqual(['weather']);
  });

  test('a kind that nobody knows is answered with the nearest one, or with all', () => {
    expect(unavailable('wether')).toContain("did you mean 'weather'?");
    expect(unavailable('teleport')).toContain('use one of weather');
    expect(unavailable('constructor')).toContain("there is no tool 'constructor'");
  });

  test.each(['container', 'ducklake', 'subscription', 'agent', 'script', 'snowflake', 'nats', 'slack', 'llm'])(
    'the known kind %s is answered with what to do',
    (kind) => expect(unavailable(kind)).toMatch(/is not built in: .*defineTool/),
  );

  test('a known kind that a user defines is available', () => {
    expect(createToolRegistry([weather({ kind: 'container' })]).get('container').kind).toBe('container');
  });

  test('two tools of one kind, and kinds of the engine, are refused', () => {
    expect(() => createToolRegistry([weather(), weather()])).toThrow(/two tools have the kind 'weather'/);
    expect(() => createToolRegistry([weather({ kind: 'playbook' })])).toThrow(/belongs to the engine/);
    expect(unavailable('workbook')).toContain('run by the engine');
  });
});

describe('fields', () => {
  const registry = createToolRegistry([weather()]);
  const call = (fields: Record<string, unknown>) => registry.call('weather', fields, callContext());

  test.each([
    [{ city: 'Oslo', days: 0 }, /`days` of weather/],
    [{ city: 7 }, /`city` of weather/],
    [{}, /weather needs `city`/],
    [{ city: 'Oslo', town: 'x' }, /weather has no field `town`/],
  ])('%j is an input error that names the field', async (fields, message) => {
    const outcome = await call(fields);
    expect(outcome).toMatchObject({ status: 'error', error: { kind: 'input', code: 'INVALID_STEP_SCHEMA' } });
    expect(outcome.status === 'error' && outcome.error.message).toMatch(message);
  });

  test('the input of the task fills what was left out, and only that', async () => {
    expect(await call({ input: { city: 'Oslo', days: 3, other: 1 } })).toMatchObject({
      result: { city: 'Oslo', days: 3 },
    });
    expect(await call({ city: 'Rome', input: { city: 'Oslo' } })).toMatchObject({ result: { city: 'Rome' } });
  });
});

describe('whatever happens is one outcome', () => {
  test('of kind tool for an unknown one', async () => {
    const outcome = await createToolRegistry([]).call('weather', {}, callContext());
    expect(outcome).toMatchObject({ status: 'error', error: { kind: 'tool', code: 'TOOL_UNAVAILABLE' } });
  });

  test('of kind internal for what a tool throws', async () => {
    const call = (thrown: unknown) =>
      createToolRegistry([weather({ call: () => Promise.reject(thrown) })]).call(
        'weather',
        { city: 'Oslo' },
        callContext(),
      );
    expect(await call(new Error('boom'))).toMatchObject({ error: { kind: 'internal', message: 'boom' } });
    expect(await call('boom')).toMatchObject({ error: { kind: 'internal', message: 'boom' } });
    expect(await call(new AppError('STORE_UNAVAILABLE', 'gone'))).toMatchObject({
      error: { kind: 'internal', code: 'STORE_UNAVAILABLE', retryable: true },
    });
  });
});

test('every tool is closed once, also when another one fails to close', async () => {
  const closed: string[] = [];
  const registry = createToolRegistry([
    weather({ kind: 'a', close: () => Promise.reject(new Error('stuck')) }),
    weather({ kind: 'b', close: async () => void closed.push('b') }),
    weather({ kind: 'c' }),
  ]);
  await expect(registry.close()).rejects.toThrow('stuck');
  await expect(registry.close()).rejects.toThrow('stuck');
  expect(closed).toEqual(['b']);
});
