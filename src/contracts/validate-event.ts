import Type from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { CATALOGUE, type EventRow, type EventType, eventRow, type Level } from './catalogue.ts';
import { RunEventWrite } from './envelope.ts';
import { Uuid } from './primitives.ts';

/** One thing that is wrong, and where: a JSON pointer into the event. */
export interface FieldProblem {
  readonly path: string;
  readonly message: string;
}

const envelope = Compile(RunEventWrite);
const importedEnvelope = Compile(
  Type.Object({ ...RunEventWrite.properties, eventId: Uuid }, { additionalProperties: false }),
);
// A closed shape is checked key by key with a regular expression; a set does the same in a tenth of the time.
// So is a payload of any keys; what may be in it depends on the type and is checked after that.
const openEnvelope = Compile(
  Type.Object({
    ...RunEventWrite.properties,
    payload: Type.Optional(Type.Unsafe<Record<string, unknown>>(Type.Object({}))),
  }),
);
// Of an event that stampEvent has made, the rest is what it wrote itself or what its run has.
const { stepId, entity, emittedAt, engineAttemptId, logicalAttemptId } = RunEventWrite.properties;
const givenFields = Compile(Type.Object({ stepId, entity, emittedAt, engineAttemptId, logicalAttemptId }));
const ENVELOPE_FIELDS = new Set(Object.keys(RunEventWrite.properties));

function hasUnknownField(value: object): boolean {
  for (const key in value) if (!ENVELOPE_FIELDS.has(key)) return true;
  return false;
}

// Compiled on first use: forty validators at start-up would cost every short command.
const payloads = new Map<EventType, Validator>();
const importedPayloads = new Map<EventType, Validator>();

function payloadValidator(type: EventType, imported: boolean): Validator {
  const compiled = imported ? importedPayloads : payloads;
  const known = compiled.get(type);
  if (known) return known;
  // What an older contract kept at the top level of the event lies in the payload of an imported one.
  const { payload } = CATALOGUE[type];
  const validator = Compile(imported ? Type.Object(payload.properties) : payload);
  compiled.set(type, validator);
  return validator;
}

/** The shape of the part of `entity` behind `stepId/`, per level. */
const ENTITY_BELOW_STEP: Partial<Record<Level, RegExp>> = {
  // Without leading zeros: one thing has one path, else it would have two keys.
  iteration: /^(0|[1-9]\d*)$/,
  task: /^((0|[1-9]\d*)\/)?[^/#@:|]+:[1-9]\d*$/,
  attempt: /^((0|[1-9]\d*)\/)?[^/#@:|]+:[1-9]\d*@[1-9]\d*$/,
  // An effect that a crash left half done is tried again as another occurrence.
  effect: /^((0|[1-9]\d*)\/)?[^/#@:|]+:[1-9]\d*@[1-9]\d*(\/try:([2-9]|[1-9]\d+))?$/,
  occurrence: /^((0|[1-9]\d*)\/)?[^/#@:|]+:[1-9]\d*$/,
  part: /^[^|]+$/,
};

/** Names that stand for something else in second place of the key and in stored paths. */
const RESERVED_STEP = /^(RUN|signal)(#|$)/;

/**
 * Everything that is wrong with an event that a producer wants to write; an empty list means that it is well-formed.
 * An imported event keeps the id that it came with, which need not be a v4. A stamped one has its envelope from stampEvent and,
 * unchanged, from a run that the store knows.
 */
export function eventProblems(
  value: unknown,
  options: { readonly imported?: boolean; readonly stamped?: boolean } = {},
): FieldProblem[] {
  if (options.imported) {
    if (!importedEnvelope.Check(value)) return schemaProblems(importedEnvelope, value, '');
  } else if (options.stamped) {
    if (!givenFields.Check(value)) return schemaProblems(envelope, value, '');
  } else if (!openEnvelope.Check(value) || hasUnknownField(value)) {
    return schemaProblems(envelope, value, '');
  }
  return contentProblems(value as RunEventWrite, options.imported ?? false);
}

function contentProblems(value: RunEventWrite, imported: boolean): FieldProblem[] {
  const row = eventRow(value.eventType);
  if (!row) return [{ path: '/eventType', message: `'${value.eventType}' is not a type of the catalogue` }];
  const place = placeProblem(value, row);
  if (place) return [place];
  if (value.payload === undefined) {
    return row.payloadRequired ? [{ path: '/payload', message: `${value.eventType} needs a payload` }] : [];
  }
  const validator = payloadValidator(value.eventType as EventType, imported);
  return validator.Check(value.payload) ? [] : schemaProblems(validator, value.payload, '/payload');
}

function placeProblem(event: RunEventWrite, row: EventRow): FieldProblem | undefined {
  const { stepId, entity } = event;
  if (row.level === 'run' || row.level === 'signal') {
    if (stepId !== undefined) return { path: '/stepId', message: `${event.eventType} must not carry a stepId` };
    if (row.level === 'run') {
      return entity === undefined
        ? undefined
        : { path: '/entity', message: `${event.eventType} must not carry an entity` };
    }
    return entity?.startsWith('signal/') && entity.length > 7
      ? undefined
      : { path: '/entity', message: `${event.eventType} needs the entity signal/<signalId>` };
  }
  if (stepId === undefined) return { path: '/stepId', message: `${event.eventType} needs a stepId` };
  if (stepId.includes('/')) return { path: '/stepId', message: 'a stepId must not hold /' };
  if (RESERVED_STEP.test(stepId)) return { path: '/stepId', message: `'${stepId}' is a reserved name` };
  const below = ENTITY_BELOW_STEP[row.level];
  if (!below) {
    return entity === undefined
      ? undefined
      : { path: '/entity', message: `${event.eventType} must not carry an entity` };
  }
  if (entity === undefined) {
    return row.level === 'part' ? undefined : { path: '/entity', message: `${event.eventType} needs an entity` };
  }
  const fits = entity.startsWith(`${stepId}/`) && below.test(entity.slice(stepId.length + 1));
  return fits ? undefined : { path: '/entity', message: `'${entity}' is no ${row.level} of step '${stepId}'` };
}

/** At most this many problems are reported: a hostile event should not cost a large answer. */
const MAX_PROBLEMS = 20;

export function schemaProblems(validator: Validator, value: unknown, prefix: string): FieldProblem[] {
  const problems = new Map<string, FieldProblem>();
  for (const error of validator.Errors(value)) {
    if (problems.size >= MAX_PROBLEMS) break;
    // An unknown field is reported twice by the validator; `schema is false` says nothing to a person.
    if (error.keyword === 'boolean') {
      problems.set(error.instancePath, { path: prefix + error.instancePath, message: 'is not a field of this event' });
    } else if (error.keyword === 'required') {
      for (const name of (error.params as { requiredProperties?: string[] }).requiredProperties ?? []) {
        problems.set(`${error.instancePath}/${name}`, {
          path: `${prefix}${error.instancePath}/${name}`,
          message: 'is missing',
        });
      }
    } else if (error.keyword !== 'additionalProperties' && !problems.has(error.instancePath)) {
      problems.set(error.instancePath, { path: prefix + error.instancePath, message: error.message });
    }
  }
  return problems.size > 0 ? [...problems.values()] : [{ path: prefix || '/', message: 'does not fit the schema' }];
}
