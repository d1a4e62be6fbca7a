import Type, { type Static } from 'typebox';
import { Count, Id, JsonObject, KeyPart, Text, UtcTime } from './primitives.ts';
import { closed } from './values.ts';

/** Every alert that Runledger raises, with how soon a person should look. */
export const ALERTS = {
  PROJECTOR_LAG_HIGH: { severity: 'P2', meaning: 'The projection is more than 5 s behind the log.' },
  PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED: {
    severity: 'P2',
    meaning: 'A reader saw a gap in the sequence of a run and read the run again. It is no sign of data loss.',
  },
  INVALID_TRANSITION: {
    severity: 'P2',
    meaning: 'The log holds an event that its state did not allow; it was ignored.',
  },
  STREAM_HORIZON_HELD: { severity: 'P2', meaning: 'A long transaction keeps new events from delivery.' },
  EVENT_BUS_DELIVERY_FAILED: { severity: 'P1', meaning: 'A delivery was given up and lies among the dead letters.' },
  PLAN_INTEGRITY_VALIDATION_FAILED: { severity: 'P1', meaning: 'A plan does not have the hash that was approved.' },
  PAUSE_DRAIN_TIMEOUT: { severity: 'P2', meaning: 'Tasks were still in flight when the time for draining ended.' },
} as const;

export type AlertCode = keyof typeof ALERTS;

/** One alert. `dedupeKey` makes it unique: the same finding is raised once. */
export const Alert = closed({
  code: Id,
  severity: Type.Enum(['P1', 'P2', 'P3']),
  message: Text,
  dedupeKey: Id,
  raisedAt: UtcTime,
  runId: Type.Optional(KeyPart),
  tenantId: Type.Optional(Id),
  projectId: Type.Optional(Id),
  environmentId: Type.Optional(Id),
  eventId: Type.Optional(Id),
  eventType: Type.Optional(Id),
  runSeq: Type.Optional(Count),
  persistedAt: Type.Optional(UtcTime),
  details: Type.Optional(JsonObject),
});
export type Alert = Static<typeof Alert>;
