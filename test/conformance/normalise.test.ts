import { expect, test } from 'vitest';
import { compiled } from '../../src/compiler/compile.fixture.ts';
import type { RunEventRecord } from '../../src/contracts/envelope.ts';
import { parseEntity } from '../../src/kernel/entity-path.ts';
import { simulate } from '../../src/testing/simulator.ts';
import { diffLines } from './diff-lines.ts';
import { normalise } from './normalise.ts';

const PLAYBOOK = `apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: everything, version: "1"}
workflow:
- step: start
  tool: {kind: noop, result: {n: 1}}
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}, {step: both}]}
- step: left
  spec: {policy: {failure: {retry: {attempts: 2, delay: 1}}}}
  tool: {kind: noop}
  next: {arcs: [{step: both}]}
- step: right
  loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
  tool: {kind: noop, result: "{{ iter.x }}"}
  next: {arcs: [{step: turns}]}
- step: turns
  loop: {in: [1, 2], iterator: x, spec: {mode: sequential}}
  tool: {kind: noop, result: "{{ iter.x }}"}
  next: {arcs: [{step: both}]}
- step: both
  tool: {kind: noop, result: twice}
  next: {arcs: [{step: end}]}
- step: end
  join: all
  tool: {kind: noop, result: over}
`;

const failsOnce = ({ logicalAttempt }: { logicalAttempt: number }) =>
  logicalAttempt === 1 ? { error: { code: 'E' } } : { ok: 2 };
const played = (seed: number, runId = `run-${seed}`): readonly RunEventRecord[] =>
  simulate(compiled(PLAYBOOK).plan, { seed, runId, scripts: { left: failsOnce } }).log;
const unitOf = ({ stepId, entity }: RunEventRecord): string =>
  `${stepId}/${entity === undefined ? '' : (parseEntity(entity)?.iteration ?? '')}`;
const lines = normalise(played(1));
const differs = (changed: readonly RunEventRecord[]): boolean => diffLines(lines, normalise(changed)) !== '';

test('runs of one plan are the same, however their branches, iterations and instances came to be', () => {
  const logs = Array.from({ length: 20 }, (_, seed) => played(seed + 1));
  const orders = new Set(logs.map((log) => log.map(({ eventType, stepId }) => `${eventType} ${stepId}`).join('\n')));
  expect(orders.size).toBeGreaterThan(10);
  for (const log of logs) expect(diffLines(normalise(logs[0]!), normalise(log))).toBe('');
});

test('a missing event and an extra event are a difference, whichever it is', () => {
  const log = played(1);
  expect(log.length).toBeGreaterThan(80);
  for (const [i, record] of log.entries()) {
    expect(differs(log.toSpliced(i, 1)), `without ${record.eventType} ${record.entity}`).toBe(true);
    expect(differs(log.toSpliced(i, 0, record)), `twice ${record.eventType} ${record.entity}`).toBe(true);
  }
});

test('two events of one entity in another order are a difference', () => {
  const log = played(1);
  let swaps = 0;
  for (const [i, record] of log.entries()) {
    const next = log.findIndex((other, at) => at > i && unitOf(other) === unitOf(record));
    if (next < 0) continue;
    swaps += 1;
    const swapped = log.with(i, log[next]!).with(next, record);
    expect(differs(swapped), `${record.eventType} and ${log[next]!.eventType} of ${unitOf(record)}`).toBe(true);
  }
  expect(swaps).toBeGreaterThan(60);
});

test('a change of what an event says is a difference, of when, by whom and on which engine is none', () => {
  const log = played(1);
  const change = (type: string, payload: Record<string, unknown>): readonly RunEventRecord[] => {
    const at = log.findIndex(({ eventType }) => eventType === type);
    return log.with(at, { ...log[at]!, payload: { ...log[at]!.payload, ...payload } });
  };
  const ref = { provider: 'temporal', namespace: 'default', workflowId: 'w', runId: 'run-1' };
  expect(differs(change('RunStarted', { engineType: 'temporal', engineRunRef: ref, startedAt: 'now' }))).toBe(false);
  expect(differs(change('RunCompleted', { completedAt: 'now' }))).toBe(false);
  expect(differs(played(1, 'another-run'))).toBe(false);
  expect(differs(log.map((record) => ({ ...record, engineAttemptId: 7, eventId: 'x', persistedAt: 'now' })))).toBe(
    false,
  );
  expect(differs(change('StepCompleted', { result: { value: { n: 2 } } }))).toBe(true);
  expect(differs(change('StepScheduled', { tool: 'other' }))).toBe(true);
  expect(differs(change('StepScheduled', { cause: { kind: 'final' } }))).toBe(true);
  expect(differs(change('NextEvaluated', { selected: [] }))).toBe(true);
  expect(differs(log.with(9, { ...log[9]!, logicalAttemptId: 9 }))).toBe(true);
  expect(differs(log.with(9, { ...log[9]!, tenantId: 'evil' }))).toBe(true);
});

test('an effect before its cause is a difference, though it is of another entity', () => {
  const log = played(1);
  let moved = 0;
  for (const [i, record] of log.entries()) {
    const first = log.findIndex((other) => unitOf(other) === unitOf(record)) === i;
    if (!first || record.stepId === undefined || record.stepId === 'start') continue;
    moved += 1;
    // To the place after the run's beginning: before whatever caused it.
    const earlier = log.toSpliced(i, 1).toSpliced(3, 0, record);
    expect(differs(earlier), `${record.eventType} ${record.entity ?? record.stepId}`).toBe(true);
  }
  expect(moved).toBeGreaterThan(8);
  expect(differs([...log.slice(0, -2), log.at(-1)!, log.at(-2)!]), 'something after the end').toBe(true);
});

test('a difference is shown as a diff', () => {
  expect(diffLines(['a', 'b', 'c', 'd', 'e'], ['a', 'b', 'x', 'd', 'e', 'f'])).toBe('  b\n- c\n+ x\n  d\n  e\n+ f');
  expect(diffLines(['a'], ['a'])).toBe('');
  expect(diffLines([], ['a'])).toBe('+ a');
});
