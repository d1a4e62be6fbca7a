import { expect, test } from 'vitest';
import { toolSuite } from '../../testing/tool.suite.ts';
import { callContext } from '../call-context.fixture.ts';
import { createToolRegistry } from '../registry.ts';
import { noopTool } from './noop-tool.ts';

toolSuite('noop', {
  open: noopTool,
  cases: [
    { title: 'nothing', input: {}, effect: 'compute' },
    { title: 'a value', input: { result: { token: 'hunter2' } }, effect: 'compute', hidden: ['hunter2'] },
  ],
});

test.each([
  [{}, null],
  [{ result: 0 }, 0],
  [{ result: '' }, ''],
  [{ result: { list: [1, { deep: true }] } }, { list: [1, { deep: true }] }],
  [{ input: { result: 'from the step' } }, 'from the step'],
  [{ result: 'own', input: { result: 'from the step', other: 1 } }, 'own'],
])('noop of %j gives %j', async (fields, result) => {
  const registry = createToolRegistry([noopTool()]);
  expect(await registry.call('noop', fields, callContext())).toEqual({ status: 'ok', result });
});
