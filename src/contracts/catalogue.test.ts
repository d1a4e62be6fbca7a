import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CATALOGUE, type Emitter, EVENT_TYPES, type EventRow, eventRow, eventTypeOfCode } from './catalogue.ts';

const rows = EVENT_TYPES.map((type): [string, EventRow] => [type, CATALOGUE[type]]);

/** Seed 000 section 1.2: type, who emits it. Engine means the control plane, activity the worker. */
const CANONICAL: Record<string, Emitter> = {
  RunApproved: 'planner',
  RunStarted: 'control',
  StepStarted: 'worker',
  StepCompleted: 'worker',
  StepFailed: 'worker',
  StepSkipped: 'control',
  SignalAccepted: 'authorization',
  SignalRejected: 'authorization',
  RunPaused: 'control',
  RunResumed: 'control',
  RunCompleted: 'control',
  RunFailed: 'control',
  RunCancelled: 'control',
};

/** Seed 003 section 5: dot name, stored type, who must emit it. */
const PLANES: [string, string, Emitter][] = [
  ['playbook.execution.requested', 'PlaybookExecutionRequested', 'control'],
  ['playbook.request.evaluated', 'PlaybookRequestEvaluated', 'control'],
  ['playbook.started', 'RunStarted', 'control'],
  ['workflow.started', 'RunStarted', 'control'],
  ['policy.admit.evaluated', 'PolicyAdmitEvaluated', 'control'],
  ['step.scheduled', 'StepScheduled', 'control'],
  ['next.evaluated', 'NextEvaluated', 'control'],
  ['workflow.finished', 'RunCompleted', 'control'],
  ['workflow.finished', 'RunFailed', 'control'],
  ['workflow.finished', 'RunCancelled', 'control'],
  ['playbook.paused', 'RunPaused', 'control'],
  ['playbook.finished', 'RunCompleted', 'control'],
  ['playbook.processed', 'PlaybookProcessed', 'control'],
  ['loop.started', 'LoopStarted', 'control'],
  ['loop.iteration.scheduled', 'LoopIterationScheduled', 'control'],
  ['loop.done', 'LoopDone', 'control'],
  ['step.started', 'StepStarted', 'worker'],
  ['step.done', 'StepCompleted', 'worker'],
  ['step.failed', 'StepFailed', 'worker'],
  ['task.started', 'TaskStarted', 'worker'],
  ['task.attempt.started', 'TaskAttemptStarted', 'worker'],
  ['task.attempt.done', 'TaskAttemptDone', 'worker'],
  ['task.attempt.failed', 'TaskAttemptFailed', 'worker'],
  ['task.done', 'TaskDone', 'worker'],
  ['task.failed', 'TaskFailed', 'worker'],
  ['policy.task.evaluated', 'PolicyTaskEvaluated', 'worker'],
  ['loop.iteration.started', 'LoopIterationStarted', 'worker'],
  ['loop.iteration.done', 'LoopIterationDone', 'worker'],
  ['loop.iteration.failed', 'LoopIterationFailed', 'worker'],
  ['result.stored', 'ResultStored', 'worker'],
  ['result.manifest.updated', 'ResultManifestUpdated', 'worker'],
];

/** Types that seed 003 has no name for, as settled. */
const SETTLED: [string, string][] = [
  ['RunApproved', 'playbook.approved'],
  ['RunQueued', 'playbook.queued'],
  ['RunResumed', 'playbook.resumed'],
  ['StepSkipped', 'step.skipped'],
  ['StepDelayed', 'step.delayed'],
  ['SignalAccepted', 'policy.signal.accepted'],
  ['SignalRejected', 'policy.signal.rejected'],
];

test('ES-1.2g every canonical event may be written by its documented emitter', () => {
  for (const [type, emitter] of Object.entries(CANONICAL))
    expect([type, ...(eventRow(type)?.emitters ?? [])]).toContain(emitter);
  // The control plane ends steps of a lost worker; nobody else shares a canonical event.
  const shared = Object.keys(CANONICAL).filter((type) => (eventRow(type)?.emitters.length ?? 0) > 1);
  expect(shared).toEqual(['StepCompleted', 'StepFailed']);
});

test('NE-5a control-plane types come from the control plane alone, data-plane types from workers', () => {
  for (const [name, type, plane] of PLANES) {
    expect([type, eventRow(type)?.names.includes(name)]).toEqual([type, true]);
    expect([type, eventRow(type)?.emitters.includes(plane)]).toEqual([type, true]);
    if (plane === 'control') expect([type, ...(eventRow(type)?.emitters ?? [])]).toEqual([type, 'control']);
  }
});

test('NE-1a types without a name in the taxonomy have the settled one, and every name has a lowercase dotted form', () => {
  for (const [type, name] of SETTLED) expect([type, ...(eventRow(type)?.names ?? [])]).toEqual([type, name]);
  for (const [type, row] of rows) {
    expect([type, row.names.length]).not.toEqual([type, 0]);
    for (const name of row.names) expect(name).toMatch(/^[a-z]+(\.[a-z]+){1,2}$/);
  }
});

test('a name belongs to one type, but for the ends of a run, which share theirs', () => {
  const owners = new Map<string, string[]>();
  for (const [type, row] of rows) for (const name of row.names) owners.set(name, [...(owners.get(name) ?? []), type]);
  const shared = [...owners].filter(([, types]) => types.length > 1);
  expect(shared).toEqual([
    ['workflow.finished', ['RunCompleted', 'RunFailed', 'RunCancelled']],
    ['playbook.finished', ['RunCompleted', 'RunFailed', 'RunCancelled']],
  ]);
});

test('codes are unique and never change, because rows hold them', () => {
  const codes = Object.fromEntries(rows.map(([type, row]) => [type, row.code]));
  expect(new Set(Object.values(codes)).size).toBe(rows.length);
  expect(codes).toMatchObject({
    PlaybookExecutionRequested: 1,
    PlaybookRequestEvaluated: 2,
    RunQueued: 3,
    RunApproved: 4,
    RunStarted: 5,
    RunPaused: 6,
    RunResumed: 7,
    RunCompleted: 8,
    RunFailed: 9,
    RunCancelled: 10,
    PlaybookProcessed: 11,
    PayloadErased: 12,
    AlertRaised: 13,
    SignalAccepted: 14,
    SignalRejected: 15,
    StepScheduled: 20,
    StepStarted: 21,
    StepCompleted: 22,
    StepFailed: 23,
    StepSkipped: 24,
    StepDelayed: 25,
    StepCarried: 26,
    LoopStarted: 30,
    LoopIterationScheduled: 31,
    LoopIterationStarted: 32,
    LoopIterationDone: 33,
    LoopIterationFailed: 34,
    LoopDone: 35,
    TaskStarted: 40,
    TaskAttemptStarted: 41,
    TaskAttemptDone: 42,
    TaskAttemptFailed: 43,
    TaskDone: 44,
    TaskFailed: 45,
    PolicyAdmitEvaluated: 50,
    PolicyTaskEvaluated: 51,
    PolicyEffectEvaluated: 52,
    NextEvaluated: 53,
    ResultStored: 60,
    ResultManifestUpdated: 61,
    WaitStarted: 70,
    WaitEnded: 71,
    CtxPatched: 72,
    EffectAttempted: 80,
    EffectSucceeded: 81,
    EffectFailed: 82,
    EffectUnknown: 83,
  });
});

test('a code of a newer version reads as an opaque name', () => {
  for (const [type, row] of rows) expect(eventTypeOfCode(row.code)).toBe(type);
  expect(eventTypeOfCode(999)).toBe('Unknown999');
  expect(eventRow('Unknown999')).toBeUndefined();
  for (const name of ['__proto__', 'constructor', 'toString', '']) expect(eventRow(name)).toBeUndefined();
});

test('ES-Aa ES-Ac every event type has a JSON Schema file of its name, and there is none for an unknown type', () => {
  const folder = new URL('../../schemas/', import.meta.url);
  const files = new Set(readdirSync(folder));
  for (const type of EVENT_TYPES) {
    expect(files).toContain(`${type}.schema.json`);
    const schema = JSON.parse(readFileSync(new URL(`${type}.schema.json`, folder), 'utf8')) as {
      properties: { eventType: { const?: string } };
    };
    expect(schema.properties.eventType.const).toBe(type);
  }
  const documented = `RunStarted RunQueued RunApproved StepStarted StepCompleted StepFailed StepSkipped StepDelayed RunPaused
    RunResumed RunCompleted RunFailed RunCancelled SignalAccepted SignalRejected`;
  for (const type of documented.split(/\s+/)) expect(files).toContain(`${type}.schema.json`);
});
