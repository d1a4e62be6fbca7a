import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import { CANONICAL_ENTITIES, CANONICAL_STATUSES, CanonicalEvent } from '../contracts/canonical-event.ts';
import { CATALOGUE, EVENT_TYPES } from '../contracts/catalogue.ts';
import { recordLog, runStarted, type ShortEvent } from '../testing/record-log.ts';
import { aliasOf, canonicalView } from './canonical-view.ts';

const valid = Compile(CanonicalEvent);
const viewOf = (event: ShortEvent) => canonicalView(recordLog('exec_1', [{ seq: 7, ...event }])[0]!);
const firstOf = (event: ShortEvent) => viewOf(event)[0]!;

/** A record of every type of the catalogue, with the place that its level asks for. */
const EVERY: ShortEvent[] = EVENT_TYPES.map((type) => {
  const place = {
    run: {},
    signal: { entity: 'signal/s1' },
    step: { step: 'fetch#2' },
    iteration: { step: 'fetch#2', entity: 'fetch#2/3' },
    task: { step: 'fetch#2', entity: 'fetch#2/3/get:2' },
    attempt: { step: 'fetch#2', entity: 'fetch#2/3/get:2@4' },
    effect: { step: 'fetch#2', entity: 'fetch#2/3/get:2@4/try:2' },
    occurrence: { step: 'fetch#2', entity: 'fetch#2/wait:1' },
    part: { step: 'fetch#2', entity: 'fetch#2/get:1@1' },
  }[CATALOGUE[type].level];
  return { type, ...place, payload: type === 'RunStarted' ? runStarted('exec_1').payload! : { extra: 1 } };
});

test('NE-1a every stored type has a lowercase dot name of entity and verb, with its PascalCase alias', () => {
  for (const type of EVENT_TYPES) {
    for (const name of CATALOGUE[type].names) {
      expect(name).toMatch(/^(playbook|workflow|step|task|loop|policy|next|result)(\.[a-z]+)?\.[a-z]+$/);
      expect(aliasOf(name)).toMatch(/^[A-Z][A-Za-z]+$/);
    }
  }
  const table = {
    'playbook.execution.requested': 'PlaybookExecutionRequested',
    'step.done': 'StepDone',
    'task.attempt.failed': 'TaskAttemptFailed',
    'loop.iteration.scheduled': 'LoopIterationScheduled',
    'policy.admit.evaluated': 'PolicyAdmitEvaluated',
    'result.manifest.updated': 'ResultManifestUpdated',
  };
  for (const [name, alias] of Object.entries(table)) expect(aliasOf(name)).toBe(alias);
  expect(firstOf({ type: 'StepCompleted', step: 'a' })).toMatchObject({
    event_type: 'step.done',
    event_alias: 'StepDone',
  });
});

test('NE-1a the taxonomy of the contract is covered, name by name', () => {
  const names = new Set<string>(EVENT_TYPES.flatMap((type) => CATALOGUE[type].names));
  const taxonomy = `playbook.execution.requested playbook.request.evaluated playbook.started playbook.paused
    playbook.finished playbook.processed workflow.started workflow.finished step.scheduled step.started step.done
    step.failed task.started task.attempt.started task.attempt.done task.attempt.failed task.done task.failed
    loop.started loop.iteration.scheduled loop.iteration.started loop.iteration.done loop.iteration.failed loop.done
    policy.admit.evaluated policy.task.evaluated next.evaluated result.stored result.manifest.updated`;
  for (const name of taxonomy.split(/\s+/)) expect(names).toContain(name);
});

test('NE-2a the view of every type carries id, type, time, execution, source, entity, parent, seq and run ids', () => {
  for (const event of EVERY) {
    for (const canonical of viewOf(event)) {
      expect([...valid.Errors(canonical)]).toEqual([]);
      expect(canonical).toMatchObject({ execution_id: 'exec_1', seq: 7, workflow_run_id: 'workflow:exec_1' });
      expect(canonical.timestamp).toBe('2026-01-01T00:00:07.000Z');
      if (event.step) expect(canonical.step_run_id).toBe('step:fetch:run:2');
    }
  }
  expect(firstOf(EVERY.find((event) => event.type === 'LoopIterationDone')!)).toMatchObject({
    iteration: 3,
    iteration_id: 'fetch#2/3',
    parent_id: 'step:fetch:run:2',
  });
  expect(firstOf({ type: 'StepCompleted', step: 'a', payload: { durationMs: 12 } }).duration_ms).toBe(12);
});

test('NE-2d source, entity_type and status use the words of the contract, and attempt starts at 1', () => {
  for (const event of EVERY) {
    for (const canonical of viewOf(event)) {
      expect(['server', 'worker']).toContain(canonical.source);
      expect(CANONICAL_ENTITIES).toContain(canonical.entity_type);
      expect(CANONICAL_STATUSES).toContain(canonical.status);
      if (canonical.attempt !== undefined) expect(canonical.attempt).toBeGreaterThanOrEqual(1);
    }
  }
  expect(firstOf({ type: 'TaskStarted', step: 'a', entity: 'a/t:1', payload: {} }).source).toBe('worker');
  expect(firstOf({ type: 'NextEvaluated', step: 'a', payload: {} }).source).toBe('server');
  expect(firstOf({ type: 'StepSkipped', step: 'a', payload: {} }).status).toBe('skipped');
  expect(firstOf({ type: 'RunPaused' }).status).toBe('paused');
});

test('NE-2e payload holds inputs, outcome, result_ref and error; everything else is metadata', () => {
  const { payload } = firstOf({
    type: 'TaskFailed',
    step: 'a',
    entity: 'a/t:1',
    payload: { inputs: { q: 1 }, outcome: { status: 'error' }, error: { code: 'E' }, attempts: 3 },
  });
  expect(payload).toMatchObject({ inputs: { q: 1 }, outcome: { status: 'error' }, error: { code: 'E' } });
  expect(Object.keys(payload!).sort()).toEqual(['error', 'inputs', 'meta', 'outcome']);
  expect(payload!['meta']).toMatchObject({
    attempts: 3,
    tenant_id: 'acme',
    logical_attempt_id: 1,
    engine_attempt_id: 1,
  });
});

test('a fact that the taxonomy splits is expanded: one seq, the stored id first, stable ids after it', () => {
  const started = viewOf(runStarted('exec_1'));
  expect(started.map((event) => event.event_type)).toEqual(['playbook.started', 'workflow.started']);
  expect(started.map((event) => event.seq)).toEqual([7, 7]);
  expect(started[0]?.event_id).toBe('00000000-0000-4000-8000-000000000007');
  expect(started[1]?.event_id).toBe(viewOf(runStarted('exec_1'))[1]?.event_id);
  expect(new Set(started.map((event) => event.event_id)).size).toBe(2);
  expect(started.map((event) => event.entity_type)).toEqual(['playbook', 'workflow']);
  const cancelled = viewOf({ type: 'RunCancelled' });
  expect(cancelled.map((event) => [event.event_type, event.status])).toEqual([
    ['workflow.finished', 'error'],
    ['playbook.finished', 'error'],
  ]);
  expect(cancelled[0]?.payload?.['meta']).toMatchObject({ outcome: 'cancelled' });
});

test('NE-7a a failed attempt looks like the example: task under its step, one task_run_id, outcome with error and meta', () => {
  const outcome = {
    status: 'error',
    error: { kind: 'http', retryable: true },
    meta: { duration_ms: 312, http_status: 503 },
  };
  const event = firstOf({
    type: 'TaskAttemptFailed',
    step: 'fetch_all_endpoints#7',
    entity: 'fetch_all_endpoints#7/fetch_page:1@2',
    payload: { attempt: 2, outcome },
  });
  expect(event).toMatchObject({
    event_type: 'task.attempt.failed',
    event_alias: 'TaskAttemptFailed',
    source: 'worker',
    entity_type: 'task',
    entity_id: 'fetch_page',
    parent_id: 'step:fetch_all_endpoints:run:7',
    task_run_id: 'task:fetch_page:run:1',
    attempt: 2,
    status: 'error',
    duration_ms: 312,
    payload: { outcome },
  });
});

test('NE-7b policy.task.evaluated has matched_rule_index and the action', () => {
  const action = { do: 'retry', attempts: 10, backoff: 'exponential', delay: 2 };
  const event = firstOf({
    type: 'PolicyTaskEvaluated',
    step: 's',
    entity: 's/fetch_page:1@2',
    payload: { matchedRuleIndex: 0, action },
  });
  expect(event).toMatchObject({
    event_type: 'policy.task.evaluated',
    entity_type: 'policy',
    entity_id: 'task:fetch_page',
    parent_id: 'task:fetch_page:run:1',
    status: 'success',
    payload: { matched_rule_index: 0, action },
  });
});

test('NE-7c result.stored has result_ref with kind, store, ref, bytes and sha256, and what was extracted', () => {
  const event = firstOf({
    type: 'ResultStored',
    step: 's',
    entity: 's/fetch_page:1@3',
    payload: {
      result: {
        ref: { uri: 's3://b/page_001.json.gz', kind: 'result', sha256: 'a'.repeat(64) },
        store: 's3',
        totalBytes: 52480,
        extracted: { has_more: true, page: 1 },
        preview: 'head',
      },
    },
  });
  expect(event).toMatchObject({
    entity_type: 'result',
    entity_id: 'task:fetch_page:attempt:3',
    parent_id: 'task:fetch_page:run:1',
    payload: {
      result_ref: {
        kind: 'result_ref',
        store: 's3',
        ref: 's3://b/page_001.json.gz',
        meta: { bytes: 52480, sha256: 'a'.repeat(64) },
      },
      extracted: { has_more: true, page: 1 },
      meta: { preview: 'head' },
    },
  });
});

test('NE-7d next.evaluated has mode, matched with conditions and selected with args', () => {
  const matched = [{ step: 'validate_results', when: "event.name == 'loop.done'" }];
  const selected = [{ step: 'validate_results', args: { execution_id: 'exec_1' } }];
  const event = firstOf({
    type: 'NextEvaluated',
    step: 'fetch_all_endpoints#7',
    payload: { boundary: 'loop.done', mode: 'exclusive', matched, selected },
  });
  expect(event).toMatchObject({
    source: 'server',
    entity_type: 'next',
    entity_id: 'step:fetch_all_endpoints',
    parent_id: 'step:fetch_all_endpoints:run:7',
    payload: { mode: 'exclusive', matched, selected, meta: { boundary: 'loop.done' } },
  });
});

test('RE-1.3b a type from a newer version is shown as opaque', () => {
  const events = viewOf({ type: 'StepTeleported2', step: 'a', payload: { to: 'Mars' } });
  expect(events).toHaveLength(1);
  expect([...valid.Errors(events[0])]).toEqual([]);
  expect(events[0]).toMatchObject({ event_type: 'unknown.step.teleported2', event_alias: 'StepTeleported2' });
});
