import type { CanonicalEvent } from '../contracts/canonical-event.ts';
import { CATALOGUE, EVENT_TYPES, type EventType } from '../contracts/catalogue.ts';
import { AppError } from '../contracts/errors.ts';
import { fromCanonicalPayload, RUN_OUTCOMES } from './canonical-payload.ts';
import { aliasOf } from './canonical-view.ts';
import { instanceId, taskEntity, unitEntity } from './entity-path.ts';
import { isObject, type JsonObject, objectOf, textOf } from './payload-reader.ts';

/** A foreign event in our words. Key and store time are not in it: the append authority's side adds them. */
export interface IngestedEvent {
  readonly eventId: string;
  readonly eventType: EventType;
  readonly runId: string;
  readonly emittedAt: string;
  readonly stepId?: string;
  readonly entity?: string;
  readonly logicalAttemptId: number;
  readonly engineAttemptId: number;
  readonly payload?: Record<string, unknown>;
}

/** Dot name to the types that are told by it first. A name that only follows another one is absorbed. */
const FIRST = new Map<string, EventType[]>();
const FOLLOWING = new Set<string>();
for (const type of EVENT_TYPES) {
  const [first, ...rest] = CATALOGUE[type].names;
  FIRST.set(first, [...(FIRST.get(first) ?? []), type]);
  for (const name of rest) FOLLOWING.add(name);
}

/**
 * A canonical envelope as the events that we would have written. Older executors' names are normalised; a component
 * of our own that still emits one is refused, with the name that it should use.
 */
export function ingest(event: CanonicalEvent, options: { readonly firstParty: boolean }): IngestedEvent[] {
  const canonical = canonicalName(event);
  if (canonical !== event.event_type && options.firstParty) {
    const message = `'${event.event_type}' is a legacy type: emit '${canonical}' (${aliasOf(canonical)}).`;
    throw new AppError('LEGACY_EVENT_TYPE', message, { eventType: event.event_type, canonical });
  }
  if (FOLLOWING.has(canonical) && !FIRST.has(canonical)) return [];
  const type = typeOf(canonical, event);
  if (type === undefined) {
    throw new AppError('SCHEMA_VALIDATION_FAILED', `'${event.event_type}' is no event type.`, { path: '/event_type' });
  }
  return [translate(type, event)];
}

/** The rows of the contract's legacy table. */
function canonicalName(event: CanonicalEvent): string {
  const name = event.event_type;
  const ended = event.status === 'error' ? 'failed' : 'done';
  switch (name) {
    case 'tool.started':
      return 'task.started';
    case 'tool.processed':
      return `task.${ended}`;
    case 'retry.started':
      return 'task.attempt.started';
    case 'retry.processed':
      return `task.attempt.${ended}`;
  }
  if (name.startsWith('sink.')) return name === 'sink.started' ? 'task.started' : `task.${ended}`;
  if (name.startsWith('case.')) return casePurpose(objectOf(event.payload));
  return name;
}

/** A `case` was admission, task policy or routing at once: what its payload says tells which. */
function casePurpose(payload: JsonObject): string {
  if (isObject(payload['action'])) return 'policy.task.evaluated';
  if (Object.hasOwn(payload, 'allow') || Object.hasOwn(objectOf(payload['meta']), 'allow'))
    return 'policy.admit.evaluated';
  return 'next.evaluated';
}

function typeOf(name: string, event: CanonicalEvent): EventType | undefined {
  const types = FIRST.get(name) ?? [];
  if (types.length <= 1) return types[0];
  const outcome = textOf(objectOf(objectOf(event.payload)['meta'])['outcome']);
  const fallback = event.status === 'success' ? 'completed' : 'failed';
  return (
    types.find((type) => RUN_OUTCOMES[type] === (outcome ?? fallback)) ??
    types.find((type) => RUN_OUTCOMES[type] === fallback)
  );
}

function translate(type: EventType, event: CanonicalEvent): IngestedEvent {
  const payload = objectOf(event.payload);
  const meta = objectOf(payload['meta']);
  const { level } = CATALOGUE[type];
  const place = placeOf(level, event);
  const stored = fromCanonicalPayload(type, payload);
  if (CATALOGUE[type].entityType === 'task' && level === 'attempt') stored['attempt'] ??= event.attempt ?? 1;
  return {
    eventId: event.event_id,
    eventType: type,
    runId: event.execution_id,
    emittedAt: textOf(meta['emitted_at']) ?? event.timestamp,
    ...place,
    logicalAttemptId: attemptOf(meta['logical_attempt_id']),
    engineAttemptId: attemptOf(meta['engine_attempt_id']),
    ...(Object.keys(stored).length === 0 ? {} : { payload: stored }),
  };
}

/** stepId and entity, read off the run ids, or off parent_id and entity_id where an executor gives only those. */
function placeOf(level: string, event: CanonicalEvent): { stepId?: string; entity?: string } {
  if (level === 'run') return {};
  if (level === 'signal') return { entity: `signal/${(event.entity_id ?? '').replace(/^signal:/, '')}` };
  const step = runOf('step', event.step_run_id ?? event.parent_id) ?? { name: stepName(event), run: 1 };
  const stepId = instanceId(step.name, step.run);
  const own = textOf(objectOf(objectOf(event.payload)['meta'])['entity']);
  if (own?.startsWith(`${stepId}/`)) return { stepId, entity: own };
  const unit = unitEntity(stepId, event.iteration);
  if (level === 'step') return { stepId };
  if (level === 'iteration') return { stepId, entity: unit };
  const task = runOf('task', event.task_run_id ?? event.parent_id);
  if (level === 'task' || level === 'attempt' || task) {
    const { name, run } = task ?? { name: (event.entity_id ?? 'task').replace(/^task:/, ''), run: 1 };
    const attempt = level === 'task' ? undefined : (event.attempt ?? 1);
    return { stepId, entity: taskEntity(unit, name, run, attempt) };
  }
  return { stepId, entity: unit };
}

function stepName(event: CanonicalEvent): string {
  if (event.entity_type === 'step' && event.entity_id !== undefined) return event.entity_id;
  const named = /^(?:step|loop):(.+)$/.exec(event.entity_id ?? '')?.[1];
  if (named !== undefined) return named;
  throw new AppError('SCHEMA_VALIDATION_FAILED', `'${event.event_type}' does not name its step.`, {
    path: '/step_run_id',
  });
}

function runOf(kind: string, id: string | undefined): { name: string; run: number } | undefined {
  const match = new RegExp(`^${kind}:(.+):run:(\\d+)$`).exec(id ?? '');
  return match ? { name: match[1] as string, run: Number(match[2]) } : undefined;
}

function attemptOf(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 ? value : 1;
}
