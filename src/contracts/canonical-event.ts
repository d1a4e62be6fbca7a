import Type, { type Static } from 'typebox';
import { Attempt, Count, Id, JsonObject, UtcTime } from './primitives.ts';

const o = Type.Optional;

export const CANONICAL_ENTITIES = ['playbook', 'workflow', 'step', 'task', 'loop', 'next', 'policy', 'result'] as const;
export const CANONICAL_STATUSES = ['in_progress', 'success', 'error', 'skipped', 'paused'] as const;

/** The envelope of the canonical view: dot names, seen by people, the bus and foreign executors. Never stored. */
export const CanonicalEvent = Type.Object({
  event_id: Id,
  event_type: Type.String({ pattern: '^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$', maxLength: 128 }),
  event_alias: o(Id),
  timestamp: UtcTime,
  execution_id: Id,
  source: o(Type.Enum(['server', 'worker'])),
  entity_type: o(Type.Enum([...CANONICAL_ENTITIES])),
  entity_id: o(Id),
  parent_id: o(Id),
  seq: o(Count),
  workflow_run_id: o(Id),
  step_run_id: o(Id),
  task_run_id: o(Id),
  iteration: o(Count),
  iteration_id: o(Id),
  attempt: o(Attempt),
  status: o(Type.Enum([...CANONICAL_STATUSES])),
  duration_ms: o(Count),
  payload: o(JsonObject),
});
export type CanonicalEvent = Static<typeof CanonicalEvent>;
