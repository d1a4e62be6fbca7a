import { expect, test } from 'vitest';
import { sampleError, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { EVENT_TYPES } from './catalogue.ts';
import { eventProblems } from './validate-event.ts';

const run = sampleRun('0d3c6a9e-4f0c-4a8e-9d5d-3d4c0f7dbb8a');
const step = sampleEvent(run, { eventType: 'StepStarted', stepId: 'model.orders' });
const runLevel = sampleEvent(run, { eventType: 'RunPaused' });
const task = sampleEvent(run, {
  eventType: 'TaskDone',
  stepId: 'fetch',
  entity: 'fetch/3/get:2',
  payload: { attempts: 1 },
});
const paths = (event: unknown): string[] => eventProblems(event).map((problem) => problem.path);
const without = (event: object, field: string) =>
  Object.fromEntries(Object.entries(event).filter(([k]) => k !== field));

const REQUIRED = `eventId eventType runId tenantId projectId environmentId planId planVersion engineAttemptId
  logicalAttemptId idempotencyKey emittedAt`.split(/\s+/);

test.each(REQUIRED)('RE-2.1a an event without %s is refused', (field) => {
  expect(eventProblems(without(step, field))).toEqual([{ path: `/${field}`, message: 'is missing' }]);
  expect(paths({ ...step, [field]: undefined })).toEqual([`/${field}`]);
  expect(paths({ ...step, [field]: null })).toEqual([`/${field}`]);
  expect(paths({ ...step, [field]: '' })).toEqual([`/${field}`]);
});

test('RE-2.1a every missing field of an empty event is named', () => {
  expect(paths({}).sort()).toEqual(REQUIRED.map((field) => `/${field}`).sort());
});

test('RE-2.2a a step-level event needs a stepId that is not empty', () => {
  for (const eventType of ['StepStarted', 'StepCompleted', 'StepFailed', 'StepSkipped', 'StepScheduled']) {
    const payload = { StepFailed: { error: sampleError }, StepSkipped: { reason: 'no' } }[eventType];
    const event = sampleEvent(run, { eventType, stepId: 'a', payload });
    expect(paths(event)).toEqual([]);
    expect(paths(without(event, 'stepId'))).toEqual(['/stepId']);
    expect(paths({ ...event, stepId: '' })).toEqual(['/stepId']);
    expect(paths({ ...event, entity: 'a/1' })).toEqual(['/entity']);
  }
});

test('RE-2.2a a run-level event must not carry a stepId', () => {
  for (const eventType of ['RunQueued', 'RunPaused', 'RunResumed', 'RunCompleted', 'RunFailed', 'RunCancelled']) {
    const event = sampleEvent(run, { eventType });
    expect(paths(event)).toEqual([]);
    expect(paths({ ...event, stepId: 'a' })).toEqual(['/stepId']);
    expect(paths({ ...event, entity: 'a/1' })).toEqual(['/entity']);
  }
});

test('the entity path must fit the level of the type and lie below the step', () => {
  const entities: Record<string, [string[], string[]]> = {
    TaskDone: [
      ['fetch/get:1', 'fetch/0/get:12'],
      [
        'fetch',
        'fetch/3',
        'fetch/get',
        'fetch/get:0',
        'fetch/get:01',
        'fetch/03/get:1',
        'fetch/get:1@1',
        'other/get:1',
      ],
    ],
    TaskAttemptDone: [
      ['fetch/get:1@1', 'fetch/3/get:2@10'],
      ['fetch/get:1', 'fetch/get:1@0', 'fetch/get:1@', 'fetch/a/b:1@1'],
    ],
    LoopIterationScheduled: [
      ['fetch/0', 'fetch/17'],
      ['fetch/', 'fetch/-1', 'fetch/00', 'fetch/x', 'fetch/1/2', 'fetchx/1'],
    ],
    WaitStarted: [
      ['fetch/wait:1', 'fetch/3/wait:2'],
      ['fetch/wait', 'fetch/wait:x', 'fetch/wait:1@1'],
    ],
  };
  const payloads: Record<string, Record<string, unknown>> = {
    TaskDone: { attempts: 1 },
    TaskAttemptDone: { attempt: 1, outcome: { status: 'ok' } },
    LoopIterationScheduled: { index: 0 },
    WaitStarted: { kind: 'timer' },
  };
  for (const [eventType, [good, bad]] of Object.entries(entities)) {
    const event = (entity?: string) =>
      sampleEvent(run, { eventType, stepId: 'fetch', entity, payload: payloads[eventType] });
    for (const entity of good) expect([entity, ...paths(event(entity))]).toEqual([entity]);
    for (const entity of bad) expect([entity, ...paths(event(entity))]).toEqual([entity, '/entity']);
    expect(paths(event())).toEqual(['/entity']);
  }
});

test('RE-2.4a attempts are whole numbers from 1 on, and the engine attempt is always there', () => {
  for (const field of ['logicalAttemptId', 'engineAttemptId']) {
    for (const value of [0, -1, 1.5, '1', null, Number.NaN, Infinity, 2_147_483_648, 1n, true]) {
      expect([value, ...paths({ ...step, [field]: value })]).toEqual([value, `/${field}`]);
    }
    expect(paths({ ...step, [field]: 2_147_483_647 })).toEqual([]);
  }
  expect(step.engineAttemptId).toBe(1);
  expect(step.logicalAttemptId).toBe(1);
});

test('RE-2.5c an eventId that is no UUID v4 is refused, but for an import', () => {
  const uuids = {
    v1: 'c232ab00-9414-11ec-b3c8-9f6bdeced846',
    v5: '2ed6657d-e927-568b-95e1-2665a8aea6a2',
    v7: '017f22e2-79b0-7cc3-98c4-dc0c0c07398f',
    'another variant': '0d3c6a9e-4f0c-4a8e-cd5d-3d4c0f7dbb8a',
    nil: '00000000-0000-0000-0000-000000000000',
    'of the example of the first contract': '01234567-89ab-cdef-0123-456789abcdef',
  };
  for (const [name, eventId] of Object.entries(uuids)) {
    expect([name, ...paths({ ...step, eventId })]).toEqual([name, '/eventId']);
    expect(eventProblems({ ...step, eventId }, { imported: true })).toEqual([]);
  }
  for (const eventId of ['', 'x', step.eventId.toUpperCase(), `{${step.eventId}}`, step.eventId.replaceAll('-', '')]) {
    expect([eventId, ...paths({ ...step, eventId })]).toEqual([eventId, '/eventId']);
    expect(eventProblems({ ...step, eventId }, { imported: true })).toMatchObject([{ path: '/eventId' }]);
  }
});

test('an import is checked as well: type, place and the fields that its payload must have', () => {
  const eventId = '01234567-89ab-cdef-0123-456789abcdef';
  const imported = (event: object) => eventProblems({ ...event, eventId }, { imported: true }).map((p) => p.path);
  expect(imported({ ...step, eventType: 'Nonsense' })).toEqual(['/eventType']);
  expect(imported(without(step, 'stepId'))).toEqual(['/stepId']);
  expect(imported({ ...step, payload: { emittedBy: 'engine', tool: 7 } })).toEqual(['/payload/tool']);
  expect(imported({ ...step, payload: { emittedBy: 'engine' } })).toEqual([]);
  expect(paths({ ...step, payload: { emittedBy: 'engine' } })).toEqual(['/payload/emittedBy']);
});

test('RE-2.6a event-specific data is in payload: nowhere else, and there where the type has some', () => {
  expect(paths({ ...step, error: sampleError })).toEqual(['/error']);
  expect(paths({ ...runLevel, reason: 'maintenance' })).toEqual(['/reason']);
  expect(paths({ ...runLevel, payload: { reason: 'maintenance' } })).toEqual([]);
  const failed = sampleEvent(run, { eventType: 'StepFailed', stepId: 'a' });
  expect(paths(failed)).toEqual(['/payload']);
  expect(paths({ ...failed, payload: {} })).toEqual(['/payload/error']);
});

const KEY_FIELDS = ['runId', 'eventType', 'planId', 'planVersion', 'stepId', 'entity'];
test.each(KEY_FIELDS)('RE-3.1c a | anywhere in %s is refused', (field) => {
  const value = String((task as Record<string, unknown>)[field]);
  for (const text of ['|', `|${value}`, `${value}|`, `${value.slice(0, 2)}|${value.slice(2)}`, `${value}\n|`]) {
    expect([text, ...paths({ ...task, [field]: text })]).toEqual([text, `/${field}`]);
  }
});

test('NUL and half surrogate pairs, which the database cannot give back, are refused in every id', () => {
  for (const field of [...KEY_FIELDS, 'tenantId', 'projectId', 'environmentId']) {
    const value = String((task as Record<string, unknown>)[field]);
    for (const text of [`${value}\0`, `\0`, `${value}\ud800`, `\udc00${value}`, `${value}\ud83d`]) {
      expect([field, ...paths({ ...task, [field]: text })]).toEqual([field, `/${field}`]);
    }
    if (field !== 'eventType' && field !== 'entity' && field !== 'stepId') {
      expect(paths({ ...task, [field]: `${value}\u{1f680}` })).toEqual([]);
    }
  }
});

test('ids are limited to 512 characters, counted by code point', () => {
  expect(paths({ ...step, stepId: '\u{1f680}'.repeat(512) })).toEqual([]);
  expect(paths({ ...step, stepId: 'a'.repeat(513) })).toEqual(['/stepId']);
  expect(paths({ ...step, tenantId: 'a'.repeat(1_000_000) })).toEqual(['/tenantId']);
});

test('the names RUN and signal stand for something else and cannot be steps', () => {
  for (const stepId of ['RUN', 'signal', 'RUN#2', 'signal#3', 'a/b']) {
    expect([stepId, ...paths({ ...step, stepId })]).toEqual([stepId, '/stepId']);
  }
  for (const stepId of ['RUNNER', 'run', 'signals', 'Signal']) expect(paths({ ...step, stepId })).toEqual([]);
});

test('WE-T1 the time is emittedAt in RFC 3339 UTC; occurredAt and names with "on" are refused', () => {
  const { emittedAt, ...rest } = step;
  expect(paths({ ...rest, occurredAt: emittedAt }).sort()).toEqual(['/emittedAt', '/occurredAt']);
  expect(paths({ ...step, occurredAt: emittedAt })).toEqual(['/occurredAt']);
  expect(paths({ ...step, eventType: 'onStepStarted' })).toEqual(['/eventType']);
  expect(paths({ ...step, eventType: 'step.started' })).toEqual(['/eventType']);
  for (const type of EVENT_TYPES) expect(type).toMatch(/^(?!On[A-Z])[A-Z][A-Za-z]+$/);
  const good = ['2026-02-11T10:30:00Z', '2026-02-11T10:30:00.1Z', '2026-12-31T23:59:60.123456789+00:00'];
  const bad = `2026-02-11 2026-02-11T10:30:00 2026-02-11T10:30:00+01:00 2026-13-01T00:00:00Z 2026-02-11T24:00:00Z
    2026-02-32T00:00:00Z 2026-02-11t10:30:00z 2026-02-11T10:30:00.Z 1770805800 2026-02-11T10:30:00.1234567890Z`;
  for (const time of good) expect(paths({ ...step, emittedAt: time })).toEqual([]);
  for (const time of bad.split(/\s+/))
    expect([time, ...paths({ ...step, emittedAt: time })]).toEqual([time, '/emittedAt']);
});

test('WE-2.1b an EngineRunRef without namespace, conductorUrl or runId is refused', () => {
  const refs = {
    temporal: { provider: 'temporal', namespace: 'default', workflowId: 'w', runId: run.runId },
    conductor: { provider: 'conductor', conductorUrl: 'http://c', workflowId: 'w', runId: run.runId },
    native: { provider: 'native', workflowId: 'w', runId: run.runId },
  };
  const needed = { temporal: ['namespace', 'runId'], conductor: ['conductorUrl', 'runId'], native: ['runId'] };
  const started = (engineRunRef: unknown) => ({
    ...startedEvent(),
    payload: { ...startedEvent().payload, engineRunRef },
  });
  for (const [engine, fields] of Object.entries(needed)) {
    const ref = refs[engine as keyof typeof refs];
    expect(eventProblems(started(ref))).toEqual([]);
    for (const field of fields) {
      const problems = eventProblems(started(without(ref, field)));
      expect(problems.length).toBeGreaterThan(0);
      for (const problem of problems) expect(problem.path).toMatch(/^\/payload\/engineRunRef/);
    }
  }
  expect(paths(started('temporal://default/w/r')).length).toBeGreaterThan(0);
});

function startedEvent() {
  const planRef = { uri: 's3://p', sha256: 'e3'.repeat(32), schemaVersion: 'v1.2', planId: 'p', planVersion: '1' };
  return sampleEvent(run, {
    eventType: 'RunStarted',
    payload: {
      status: 'RUNNING',
      engineRunRef: { provider: 'mock', workflowId: 'w', runId: run.runId },
      engineType: 'mock',
      planRef,
      context: { tenantId: 't', projectId: 'p', environmentId: 'e', triggeredBy: 'jane', triggerSource: 'api' },
      startedAt: '2026-02-11T10:30:00.000Z',
    },
  });
}

test('ES-Ab the payload of RunStarted has all of its fields, and triggerSource is one of four', () => {
  const event = startedEvent();
  const payload = event.payload as Record<string, Record<string, unknown>>;
  expect(eventProblems(event)).toEqual([]);
  for (const field of ['status', 'engineRunRef', 'engineType', 'planRef', 'context', 'startedAt']) {
    expect(paths({ ...event, payload: without(payload, field) })).toEqual([`/payload/${field}`]);
  }
  for (const field of ['tenantId', 'projectId', 'environmentId']) {
    const context = without(payload['context']!, field);
    expect(paths({ ...event, payload: { ...payload, context } })).toEqual([`/payload/context/${field}`]);
  }
  const at = (triggerSource: unknown) => ({
    ...event,
    payload: { ...payload, context: { ...payload['context'], triggerSource } },
  });
  for (const source of ['manual', 'schedule', 'webhook', 'api']) expect(paths(at(source))).toEqual([]);
  expect(paths(at('cron'))).toEqual(['/payload/context/triggerSource']);
  expect(paths({ ...event, payload: { ...payload, status: 'PAUSED' } })).toEqual(['/payload/status']);
});

test('ES-1.2e a signal decision records what was decided and who refused, and needs its entity', () => {
  const accepted = sampleEvent(run, {
    eventType: 'SignalAccepted',
    entity: 'signal/s1',
    payload: { signalId: 's1', signalType: 'PAUSE' },
  });
  const payload = { signalId: 's1', signalType: 'PAUSE', rejectedBy: 'authorization', code: 'FORBIDDEN', reason: 'no' };
  const rejected = sampleEvent(run, { eventType: 'SignalRejected', entity: 'signal/s1', payload });
  expect(eventProblems(accepted)).toEqual([]);
  expect(eventProblems(rejected)).toEqual([]);
  expect(eventProblems({ ...rejected, payload: { ...payload, rejectedBy: 'validation' } })).toEqual([]);
  expect(paths({ ...rejected, payload: { ...payload, rejectedBy: 'mood' } })).toEqual(['/payload/rejectedBy']);
  for (const field of ['signalId', 'signalType', 'rejectedBy', 'code', 'reason']) {
    expect(paths({ ...rejected, payload: without(payload, field) })).toEqual([`/payload/${field}`]);
  }
  expect(paths(without(accepted, 'entity'))).toEqual(['/entity']);
  expect(paths({ ...accepted, entity: 'signal/' })).toEqual(['/entity']);
  expect(paths({ ...accepted, stepId: 'a' })).toEqual(['/stepId']);
});

test('ES-1.2f StepSkipped needs its reason, StepFailed its error, and StepCompleted takes artifacts', () => {
  const at = (eventType: string, payload?: Record<string, unknown>) =>
    paths(sampleEvent(run, { eventType, stepId: 'a', payload }));
  expect(at('StepSkipped')).toEqual(['/payload']);
  expect(at('StepSkipped', {})).toEqual(['/payload/reason']);
  expect(at('StepSkipped', { reason: 'a condition did not hold' })).toEqual([]);
  expect(at('StepFailed', {})).toEqual(['/payload/error']);
  for (const field of ['code', 'message', 'retryable', 'category']) {
    expect(at('StepFailed', { error: without(sampleError, field) })).toEqual([`/payload/error/${field}`]);
  }
  const artifact = { uri: 's3://x', kind: 'log-bundle' };
  expect(at('StepCompleted', { artifacts: [artifact] })).toEqual([]);
  expect(at('StepCompleted', { artifacts: [artifact, { kind: 'log-bundle' }] })).toEqual(['/payload/artifacts/1/uri']);
});

test('ES-Aa the path of each problem is listed, and a hostile event does not get a large answer', () => {
  const bad = { ...step, tenantId: 7, planId: 'a|b', payload: 'text', extra: 1 };
  expect(paths(bad).sort()).toEqual(['/extra', '/payload', '/planId', '/tenantId']);
  const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`field${i}`, i]));
  expect(eventProblems({ ...step, ...many }).length).toBeLessThanOrEqual(20);
  for (const value of [null, undefined, 1, 'text', [], [step], () => step])
    expect(eventProblems(value)).toHaveLength(1);
});

test('fields that would pollute a prototype are refused like any other unknown field', () => {
  const parse = (text: string) => JSON.parse(text) as object;
  const own = parse(JSON.stringify(step).replace('{', '{"__proto__":{"polluted":1},'));
  expect(paths(own)).toEqual(['/__proto__']);
  expect(paths({ ...step, payload: parse('{"__proto__":{"polluted":1}}') })).toEqual(['/payload/__proto__']);
  expect(paths({ ...step, payload: parse('{"constructor":{"prototype":{"polluted":1}}}') })).toEqual([
    '/payload/constructor',
  ]);
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
});
