import Type, { type Static } from 'typebox';
import { Count, Id, Json, JsonObject, KeyPart, Sha256Hex, Text } from './primitives.ts';
import { closed } from './values.ts';

/** The version of the plan's own shape. A runner takes this minor version and the three before it. */
export const PLAN_SCHEMA_VERSION = 'v1.0';

/**
 * Every version that a runner takes, newest first. A version is deprecated by giving it an end, a day on which the next
 * release stops to take it; docs/plan-versions.md is made from this table.
 */
export const PLAN_SCHEMA_VERSIONS: readonly { readonly version: string; readonly end?: string }[] = [
  { version: PLAN_SCHEMA_VERSION },
];

const o = Type.Optional;
/** `/ # @ : |` separate the parts of an entity path and of the idempotency key. */
const StepName = Type.String({ minLength: 1, maxLength: 200, pattern: '^[^/#@:|\\u0000]+$' });
/** A value that may hold templates; strings are rendered when it is used. */
const Templated = Json;
/** A template that is read as a condition. */
const Condition = Type.Union([Type.String({ maxLength: 65_536 }), Type.Boolean()]);
/** A number, or a template that gives one. */
const NumberOrTemplate = Type.Union([Type.Number(), Type.String({ maxLength: 65_536 })]);

export const BACKOFFS = ['none', 'fixed', 'linear', 'exponential'] as const;

/** Assignments: keys are `ctx.x`, `iter.y` or a bare task-local name, values are templated. */
const Assignments = Type.Record(Type.String(), Templated);

export const RuleAction = closed({
  do: Type.Enum(['continue', 'retry', 'jump', 'break', 'fail']),
  attempts: o(NumberOrTemplate),
  backoff: o(Type.Enum([...BACKOFFS])),
  delay: o(NumberOrTemplate),
  to: o(Id),
  set: o(Assignments),
});
export type RuleAction = Static<typeof RuleAction>;

/** The rules of a task, tried from top to bottom; a rule without `when` is the `else`. */
export const TaskPolicy = closed({
  rules: Type.Array(closed({ when: o(Condition), then: RuleAction })),
  mode: o(Id),
  onUnmatched: o(Type.Enum(['continue', 'fail'])),
  before: o(Type.Array(Assignments)),
  after: o(Type.Array(Assignments)),
  finally: o(Type.Array(Assignments)),
});
export type TaskPolicy = Static<typeof TaskPolicy>;

const Effect = closed({
  class: o(Type.Enum(['compute', 'read', 'write'])),
  key: o(Type.String()),
  scope: o(Type.Enum(['run', 'tenant'])),
  tier: o(Type.Enum(['low', 'med', 'high'])),
  reverse: o(JsonObject),
  onUnknown: o(Type.Enum(['reconcile', 'retry', 'ask'])),
});

export const Task = closed({
  name: StepName,
  kind: Id,
  /** The tool's own fields, templated, keychain allowed. */
  with: JsonObject,
  policy: o(TaskPolicy),
  set: o(Assignments),
  timeout: o(NumberOrTemplate),
  result: o(
    closed({
      inlineMaxBytes: o(Count),
      previewMaxBytes: o(Count),
      store: o(Json),
      select: o(Type.Array(Id)),
    }),
  ),
  effect: o(Effect),
  /** The exact child of a `playbook` task whose path is not a template. */
  child: o(closed({ path: Id, planId: KeyPart, planVersion: KeyPart, sha256: Sha256Hex })),
});
export type Task = Static<typeof Task>;

export const Loop = closed({
  in: o(Templated),
  iterator: Id,
  mode: Type.Enum(['sequential', 'parallel', 'cursor']),
  maxInFlight: o(NumberOrTemplate),
  exec: o(Type.Enum(['local', 'distributed'])),
  cursor: o(JsonObject),
  frame: o(JsonObject),
});
export type Loop = Static<typeof Loop>;

export const Arc = closed({
  step: StepName,
  when: o(Condition),
  args: o(Templated),
  set: o(Assignments),
});
export type Arc = Static<typeof Arc>;

export const PlanStep = closed({
  /** The name in the playbook; instances of it in a run are `name`, `name#2`, ... */
  stepId: StepName,
  index: Count,
  desc: o(Text),
  join: o(Type.Literal('all')),
  admit: o(closed({ rules: Type.Array(closed({ when: o(Condition), allow: Type.Boolean(), reason: o(Text) })) })),
  timeoutS: o(NumberOrTemplate),
  failure: o(
    closed({
      mode: o(Type.Enum(['fail_fast', 'best_effort'])),
      retry: o(
        closed({
          attempts: NumberOrTemplate,
          delay: o(NumberOrTemplate),
          backoff: o(Type.Enum([...BACKOFFS])),
          maxDelay: o(NumberOrTemplate),
        }),
      ),
    }),
  ),
  loop: o(Loop),
  /** Empty for a step that only routes. */
  tasks: Type.Array(Task),
  input: o(Templated),
  set: o(Assignments),
  output: o(closed({ store: o(Json), select: o(Type.Array(Id)) })),
  next: o(
    closed({
      mode: Type.Enum(['exclusive', 'inclusive']),
      onNoMatch: o(Type.Enum(['complete', 'quiet'])),
      arcs: Type.Array(Arc),
    }),
  ),
  /**
   * Names of the `join: all` steps, other than this one, that can be reached from here along arcs: a join holds its
   * tokens while a live token stands at a step that lists it. Only joins are listed, because the full closure of a
   * linear plan of 1,000 steps would be half a million names.
   */
  reaches: Type.Array(StepName),
});
export type PlanStep = Static<typeof PlanStep>;

const PlanMetadata = Type.Object(
  {
    planId: KeyPart,
    planVersion: KeyPart,
    name: Id,
    path: o(Id),
    description: o(Text),
    requiresCapabilities: o(Type.Array(Id)),
    fallbackBehavior: o(Type.Enum(['reject', 'emulate', 'degrade'])),
    targetAdapter: o(Type.Enum(['temporal', 'conductor', 'native', 'mock', 'any'])),
    /** Every other metadata key of the playbook, kept as data. */
    extra: o(JsonObject),
  },
  { additionalProperties: false },
);

/** The immutable plan. Its identity is the SHA-256 of its canonical JSON. */
export const Plan = closed({
  schemaVersion: Type.String({ pattern: '^v\\d+\\.\\d+$' }),
  metadata: PlanMetadata,
  entryStep: StepName,
  finalStep: o(StepName),
  noNextIsError: o(Type.Boolean()),
  workload: JsonObject,
  keychain: Type.Array(JsonObject),
  executor: o(JsonObject),
  limits: o(closed({ maxSteps: o(Count), maxJumps: o(Count) })),
  /** Root keys that mean nothing to the runner but stay visible to templates (`spec`, `tracing`). */
  inert: o(JsonObject),
  workbook: Type.Record(Type.String(), Task),
  steps: Type.Array(PlanStep, { minItems: 1 }),
  /** The children that the plan names, each by its exact version. */
  children: Type.Array(closed({ path: Id, planId: KeyPart, planVersion: KeyPart, sha256: Sha256Hex })),
});
export type Plan = Static<typeof Plan>;
