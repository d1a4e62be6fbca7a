import type { CanonicalEvent } from '../contracts/canonical-event.ts';
import { type EventRow, eventRow } from '../contracts/catalogue.ts';
import type { RunEventRecord } from '../contracts/envelope.ts';
import { toCanonicalPayload } from './canonical-payload.ts';
import { type EntityPath, instanceNumberOf, parseEntity, stepNameOf } from './entity-path.ts';
import { countOf, isObject, objectOf } from './payload-reader.ts';
import { some } from './step-state.ts';

/** The PascalCase alias of a dot name, always its own: step.done is StepDone, whatever the fact is stored as. */
export function aliasOf(dotName: string): string {
  return dotName.replace(/(?:^|[._])([a-z0-9])/g, (_match, first: string) => first.toUpperCase());
}

/** Where a record stands in the canonical view, for one of the names that its fact is told by. */
function dotNames(record: Pick<RunEventRecord, 'eventType'>): readonly string[] {
  return eventRow(record.eventType)?.names ?? [opaqueName(record.eventType)];
}

/** A type from a newer version is shown under a name that is made from its own. */
function opaqueName(type: string): string {
  const words = type.replace(/([a-z0-9])([A-Z])/g, '$1.$2').toLowerCase();
  return `unknown.${words.replace(/[^a-z0-9.]+/g, '_')}`.replace(/\.(?=[0-9_.]|$)/g, '_');
}

const workflowRunId = (runId: string): string => `workflow:${runId}`;
const stepRunId = (stepId: string): string => `step:${stepNameOf(stepId)}:run:${instanceNumberOf(stepId)}`;
const taskRunId = (task: string, run: number): string => `task:${task}:run:${run}`;

/**
 * A stored record as the canonical events that it stands for. A fact that the taxonomy splits gives several, which
 * share the `seq`; the first keeps the stored id, the others have ids that are made from it.
 */
export function canonicalView(record: RunEventRecord): CanonicalEvent[] {
  const row = eventRow(record.eventType);
  return dotNames(record).map((name, i) => {
    const eventId = i === 0 ? record.eventId : `${record.eventId}/${name}`;
    return row ? describe(record, row, name, eventId) : opaque(record, name, eventId);
  });
}

function opaque(record: RunEventRecord, name: string, eventId: string): CanonicalEvent {
  return {
    event_id: eventId,
    event_type: name,
    event_alias: record.eventType,
    timestamp: record.persistedAt,
    execution_id: record.runId,
    seq: record.runSeq,
    payload: toCanonicalPayload(record),
  };
}

function describe(record: RunEventRecord, row: EventRow, name: string, eventId: string): CanonicalEvent {
  const payload = objectOf(record.payload);
  const path = record.entity === undefined ? undefined : parseEntity(record.entity);
  const entity = entityOf(record, row, name, path);
  const isTask = path?.part !== undefined && path.part !== 'wait' && path.part !== 'ctx';
  const outcome = isObject(payload['outcome']) ? objectOf(payload['outcome']['meta']) : {};
  const signal = record.entity?.startsWith('signal/') === true;
  return {
    event_id: eventId,
    event_type: name,
    event_alias: aliasOf(name),
    timestamp: record.persistedAt,
    execution_id: record.runId,
    source: row.emitters[0] === 'worker' ? 'worker' : 'server',
    entity_type: entity.type,
    entity_id: entity.id,
    ...some('parent_id', entity.parent),
    seq: record.runSeq,
    workflow_run_id: workflowRunId(record.runId),
    ...some('step_run_id', record.stepId === undefined ? undefined : stepRunId(record.stepId)),
    ...(isTask && !signal ? { task_run_id: taskRunId(path.part as string, path.occurrence ?? 1) } : {}),
    ...(path?.iteration === undefined
      ? {}
      : { iteration: path.iteration, iteration_id: `${path.stepId}/${path.iteration}` }),
    ...(isTask ? some('attempt', path.attempt) : {}),
    status: row.status,
    ...some('duration_ms', countOf(payload['durationMs']) ?? countOf(outcome['duration_ms'])),
    payload: toCanonicalPayload(record),
  };
}

interface CanonicalPlace {
  readonly type: EventRow['entityType'];
  readonly id: string;
  readonly parent?: string;
}

/** entity_id and parent_id as the contract's examples have them: workflow holds steps, a step holds tasks. */
function entityOf(record: RunEventRecord, row: EventRow, name: string, path: EntityPath | undefined): CanonicalPlace {
  const { stepId } = record;
  if (record.entity?.startsWith('signal/')) {
    return {
      type: row.entityType,
      id: `signal:${record.entity.slice('signal/'.length)}`,
      parent: `playbook:${record.planId}`,
    };
  }
  if (stepId === undefined) {
    if (name.startsWith('workflow.'))
      return { type: 'workflow', id: record.runId, parent: `playbook:${record.planId}` };
    return { type: row.entityType, id: record.planId };
  }
  const step = stepNameOf(stepId);
  const isTask = path?.part !== undefined && path.part !== 'wait' && path.part !== 'ctx';
  if (isTask) {
    const run = taskRunId(path.part as string, path.occurrence ?? 1);
    if (row.entityType === 'task') return { type: 'task', id: path.part as string, parent: stepRunId(stepId) };
    if (row.entityType === 'policy') return { type: 'policy', id: `task:${path.part}`, parent: run };
    const attempt = path.attempt === undefined ? '' : `:attempt:${path.attempt}`;
    return { type: row.entityType, id: `task:${path.part}${attempt}`, parent: run };
  }
  if (row.entityType === 'step') return { type: 'step', id: step, parent: workflowRunId(record.runId) };
  if (row.entityType === 'workflow') return { type: 'workflow', id: record.runId, parent: stepRunId(stepId) };
  if (row.entityType === 'loop') return { type: 'loop', id: `loop:${step}`, parent: stepRunId(stepId) };
  return { type: row.entityType, id: `step:${step}`, parent: stepRunId(stepId) };
}
