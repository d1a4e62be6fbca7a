import Type, { type TProperties, type TSchema } from 'typebox';
import { BACKOFFS } from '../contracts/plan.ts';

/**
 * The playbook language as authors write it. One table for three readers: the compiler takes its field names and words
 * from here, editors get it as JSON Schema, and people its descriptions.
 */
const o = Type.Optional;
const form = <T extends TProperties>(properties: T, description?: string) =>
  Type.Object(properties, { additionalProperties: false, ...(description ? { description } : {}) });
const text = (description: string) => Type.String({ description });
const any = (description: string) => Type.Unknown({ description });
const data = (description: string) => Type.Record(Type.String(), Type.Unknown(), { description });
const word = <const T extends readonly string[]>(words: T, description: string) =>
  Type.Enum([...words], { description });
const number = (description: string) =>
  Type.Union([Type.Number(), Type.String()], { description: `${description} A number, or a template that gives one.` });
const flag = (description: string) => Type.Boolean({ description });
const condition = (description: string) => Type.Union([Type.String(), Type.Boolean()], { description });

export const API_VERSIONS = ['noetl.io/v2', 'noetl.io/v10', 'runledger/v1'] as const;
export const NEXT_MODES = ['exclusive', 'inclusive'] as const;
export const ON_NO_MATCH = ['complete', 'quiet'] as const;
export const LOOP_MODES = ['sequential', 'parallel', 'cursor'] as const;
export const LOOP_EXECS = ['local', 'distributed'] as const;
export const FAILURE_MODES = ['fail_fast', 'best_effort'] as const;
export const ACTIONS = ['continue', 'retry', 'jump', 'break', 'fail'] as const;
export const ON_UNMATCHED = ['continue', 'fail'] as const;
export const EFFECT_CLASSES = ['compute', 'read', 'write'] as const;
export const EFFECT_SCOPES = ['run', 'tenant'] as const;
export const TIERS = ['low', 'med', 'high'] as const;
export const ON_UNKNOWN = ['reconcile', 'retry', 'ask'] as const;
export const FALLBACKS = ['reject', 'emulate', 'degrade'] as const;
export const ADAPTERS = ['temporal', 'conductor', 'native', 'mock', 'any'] as const;
export const PROFILES = ['local', 'distributed', 'auto'] as const;
export const KEYCHAIN_KINDS = ['credential', 'secrets', 'static', 'bearer', 'oauth2'] as const;

const SET = data(
  'Assignments: `ctx.x` for the run, `iter.y` for the iteration, a bare name for later tasks of the pipeline.',
);

export const RetryForm = form(
  {
    max_attempts: number('All tries together.'),
    retry_on: o(Type.Array(Type.String(), { description: 'Kinds or codes of errors; any error if left out.' })),
    retry_on_status: o(Type.Array(Type.Number(), { description: 'HTTP statuses.' })),
    backoff: o(word(BACKOFFS, 'How the pause grows.')),
    delay: o(number('Seconds before the second try.')),
    backoff_seconds: o(number('An older spelling of `delay`.')),
  },
  'An older spelling of a retry rule in `spec.policy.rules`.',
);

export const ActionForm = form(
  {
    do: o(word(ACTIONS, 'What happens next; `continue` if left out.')),
    attempts: o(number('For retry: all tries together.')),
    backoff: o(word(BACKOFFS, 'For retry: how the pause grows.')),
    delay: o(number('For retry: seconds.')),
    to: o(text('For jump: the name of a task of this pipeline, or `previous`.')),
    set: o(SET),
    set_ctx: o(data('An older spelling of `set` with `ctx.`.')),
    set_iter: o(data('An older spelling of `set` with `iter.`.')),
  },
  'What a rule does.',
);

const ElseForm = form(
  { then: o(ActionForm), ...ActionForm.properties },
  'The rule that matches when no other did; stands last.',
);

export const RuleForm = form(
  { when: o(condition('A condition over `outcome`, `ctx`, `iter`, ...')), then: o(ActionForm), else: o(ElseForm) },
  'Rules are tried from top to bottom; the first match wins.',
);

const HOOK = (when: string) => Type.Array(data('Assignments.'), { description: `Assignments made ${when}.` });

export const TaskPolicyForm = form(
  {
    rules: o(Type.Array(RuleForm)),
    mode: o(word(['exclusive'], 'The first matching rule wins.')),
    on_unmatched: o(word(ON_UNMATCHED, 'What happens if no rule matches.')),
    before: o(HOOK('before the call')),
    after: o(HOOK('after the call succeeded')),
    finally: o(HOOK('after the call, whatever happened')),
  },
  'What the worker does with the outcome of the call.',
);

export const ResultForm = form(
  {
    inline_max_bytes: o(Type.Integer({ minimum: 0, description: 'Larger results are stored outside the log.' })),
    preview_max_bytes: o(Type.Integer({ minimum: 0, description: 'How much of a stored result is shown.' })),
    store: o(any('Where large results go.')),
    select: o(Type.Array(Type.String(), { description: 'Fields that stay in the log.' })),
    output_select: o(Type.Array(Type.String(), { description: 'An older spelling of `select`.' })),
  },
  'How the result is kept.',
);

export const TaskSpecForm = form(
  {
    policy: o(TaskPolicyForm),
    timeout: o(number('Seconds, or a text such as 30s or 5m.')),
    timeout_seconds: o(number('An older spelling of `timeout`.')),
    result: o(ResultForm),
  },
  'Settings of the task.',
);

export const EffectForm = form(
  {
    class: o(word(EFFECT_CLASSES, 'What the call does to the outside world.')),
    key: o(text('Names the effect; the same key takes effect once.')),
    scope: o(word(EFFECT_SCOPES, 'Where the key is unique: in one chain of retries, or across runs.')),
    tier: o(word(TIERS, 'Risk.')),
    reverse: o(data('The call that takes the effect back.')),
    on_unknown: o(word(ON_UNKNOWN, 'What to do when a crash hides whether the call happened.')),
  },
  'What the call does to the outside world.',
);

/** Fields that every task has, whatever its tool. */
export const TaskForm = form(
  {
    name: o(text('Name of the task; task_0, task_1, ... if left out.')),
    kind: text('The tool.'),
    desc: o(text('For people.')),
    spec: o(TaskSpecForm),
    set: o(SET),
    set_ctx: o(data('An older spelling of `set` with `ctx.`.')),
    set_iter: o(data('An older spelling of `set` with `iter.`.')),
    effect: o(EffectForm),
    timeout: o(number('Seconds, or a text such as 30s or 5m.')),
    timeout_seconds: o(number('An older spelling of `timeout`.')),
    output: o(ResultForm),
    retry: o(RetryForm),
  },
  'One call of a tool.',
);

const AdmitThen = form({ allow: flag('Whether the step may run.'), reason: o(text('Recorded with the decision.')) });
export const AdmitRuleForm = form({
  when: o(condition('A condition over `ctx`, `workload`, `event`, ...')),
  then: o(AdmitThen),
  else: o(
    form({
      then: o(AdmitThen),
      allow: o(flag('Whether the step may run.')),
      reason: o(text('Recorded with the decision.')),
    }),
  ),
});
export const AdmitForm = form(
  { rules: Type.Array(AdmitRuleForm), mode: o(word(['exclusive'], 'The first matching rule wins.')) },
  'Decides before scheduling whether the step runs; allowed if no rule matches.',
);
export const AdmitThenForm = AdmitThen;

export const StepRetryForm = form({
  attempts: number('All tries together.'),
  delay: o(number('Seconds before the second try.')),
  backoff: o(word(BACKOFFS, 'How the pause grows.')),
  max_delay: o(number('The longest pause, in seconds.')),
});
export const FailureForm = form({
  mode: o(word(FAILURE_MODES, 'Whether an unhandled failure stops the siblings.')),
  retry: o(StepRetryForm),
});
export const LifecycleForm = form({ timeout_s: o(number('Seconds that the step may take.')) });
export const StepPolicyForm = form({ admit: o(AdmitForm), lifecycle: o(LifecycleForm), failure: o(FailureForm) });
export const StepSpecForm = form({
  policy: o(StepPolicyForm),
  next_mode: o(word(NEXT_MODES, 'An older spelling of `next.spec.mode`.')),
  timeout: o(number('An older spelling of `policy.lifecycle.timeout_s`.')),
});

export const FrameForm = form(
  {
    max_rows: o(number('Rows taken at a time.')),
    max_bytes: o(number('Bytes taken at a time.')),
    max_seconds: o(number('Seconds until the frame is committed.')),
    lease_seconds: o(number('How long a frame is held.')),
    heartbeat_seconds: o(number('How often the lease is renewed.')),
    max_attempts: o(number('Tries per frame.')),
    process: o(word(['row', 'frame'], 'Whether the tool gets one row or the whole frame.')),
    row_concurrency: o(
      number('At most so many rows of a frame at the same time. They run one after the other, so it has no effect.'),
    ),
  },
  'How much a cursor loop takes at a time.',
);
export const CursorForm = form(
  {
    kind: text('The database: postgres.'),
    auth: o(text('Name of an entry of the secrets provider.')),
    claim: text('SQL that claims rows and returns them; run again until it returns none.'),
    options: o(data('Options of the driver.')),
  },
  'Draws work from a query instead of a list.',
);
export const LoopSpecForm = form({
  mode: o(word(LOOP_MODES, 'One after the other, at the same time, or from a query.')),
  max_in_flight: o(number('Iterations at the same time.')),
  policy: o(form({ exec: o(word(LOOP_EXECS, 'On one worker, or on all.')) })),
  frame: o(FrameForm),
});
export const LoopForm = form(
  {
    in: o(any('The list: a template that gives one, or the list itself.')),
    iterator: o(text('Name of the current item, `iter.<name>`; `item` if left out.')),
    mode: o(word(LOOP_MODES, 'An older spelling of `spec.mode`.')),
    max_in_flight: o(number('An older spelling of `spec.max_in_flight`.')),
    spec: o(LoopSpecForm),
    cursor: o(CursorForm),
  },
  'Runs the tool once per item.',
);

export const ArcForm = form({
  step: text('Where to.'),
  when: o(condition('A condition over `event`, step results, `ctx`, ...; true if left out.')),
  args: o(any('Values that the next step sees as `args`.')),
  set: o(SET),
  set_ctx: o(data('An older spelling of `set` with `ctx.`.')),
});
export const NextForm = form(
  {
    spec: o(
      form({
        mode: o(word(NEXT_MODES, 'The first matching arc, or all of them.')),
        on_no_match: o(word(ON_NO_MATCH, 'What happens if no arc matches.')),
      }),
    ),
    arcs: o(Type.Array(ArcForm)),
  },
  'Where the token goes when the step ended.',
);

export const OutputForm = form(
  {
    store: o(any('Where large results go.')),
    output_select: o(Type.Array(Type.String(), { description: 'Fields that stay in the log.' })),
    select: o(Type.Array(Type.String(), { description: 'Another spelling of `output_select`.' })),
  },
  'How the result of the step is kept.',
);

export const StepForm = form(
  {
    step: text('Unique name. The characters / # @ : | are reserved.'),
    desc: o(text('For people.')),
    spec: o(StepSpecForm),
    join: o(Type.Literal('all', { description: 'Waits for every token that can still arrive, and runs once.' })),
    loop: o(LoopForm),
    tool: o(any('One task, or a list of tasks.')),
    input: o(any('Merged into what the tool gets.')),
    set: o(SET),
    set_ctx: o(data('An older spelling of `set` with `ctx.`.')),
    output: o(OutputForm),
    next: o(NextForm),
  },
  'A step of the workflow.',
);

export const KeychainForm = Type.Object(
  {
    name: text('Templates see it as `keychain.<name>`, in the fields of tools only.'),
    kind: word([...KEYCHAIN_KINDS, 'secret_manager'], 'Where the credential comes from.'),
    scope: o(text('How long it is kept.')),
    credential: o(text('For credential: the name of an entry of the secrets provider.')),
    provider: o(text('For secrets: the provider.')),
    auth: o(any('For secrets: the credential for the provider.')),
    map: o(data('For secrets and static: name -> reference.')),
    token: o(text('For bearer: a template that gives the token.')),
    endpoint: o(text('For oauth2: where tokens come from.')),
    method: o(text('For oauth2: the HTTP method.')),
    headers: o(data('For oauth2.')),
    data: o(any('For oauth2: the body.')),
    auto_renew: o(flag('For oauth2: fetch a new token before the old one ends.')),
  },
  {
    additionalProperties: true,
    description: 'A credential by reference; it is resolved on the worker and never logged.',
  },
);

export const WorkbookForm = form(
  { name: text('Unique name.'), desc: o(text('For people.')), tool: any('The task.'), assert: o(any('Ignored.')) },
  'A reusable task.',
);

export const ExecutorForm = form({
  profile: o(word(PROFILES, 'Where the run should be placed.')),
  version: o(text('Version of the runtime contract.')),
  requires: o(
    form({
      tools: o(Type.Array(Type.String(), { description: 'Tools that must exist.' })),
      features: o(Type.Array(Type.String(), { description: 'Another spelling of `capabilities`.' })),
      capabilities: o(Type.Array(Type.String(), { description: 'What the engine must be able to do.' })),
    }),
  ),
  spec: o(
    form({
      entry_step: o(text('The first step; else the one named `start`, else the first of the list.')),
      final_step: o(text('Runs once when no token is left, whatever happened before.')),
      no_next_is_error: o(flag('A step without a matching arc fails the run.')),
      policy: o(
        form({
          defaults: o(data('Defaults.')),
          results: o(data('How results are kept.')),
          limits: o(data('max_steps, max_jumps, ...')),
        }),
      ),
    }),
  ),
});

const MetadataForm = Type.Object(
  {
    name: o(text('Name of the playbook.')),
    path: o(text('Path in the registry; the identity of the plan.')),
    version: o(
      Type.Union([Type.String(), Type.Number()], {
        description: 'Version of the plan; derived from its content if left out.',
      }),
    ),
    description: o(text('For people.')),
    labels: o(any('Kept as data.')),
    tags: o(any('Kept as data.')),
    requiresCapabilities: o(Type.Array(Type.String(), { description: 'What the engine must be able to do.' })),
    fallbackBehavior: o(word(FALLBACKS, 'What happens if the engine lacks a capability.')),
    targetAdapter: o(word(ADAPTERS, 'The engine that the playbook is made for.')),
  },
  { additionalProperties: true, description: 'Other keys are kept as data.' },
);

export const PlaybookForm = form({
  apiVersion: word(API_VERSIONS, 'Version of the language.'),
  kind: Type.Literal('Playbook'),
  metadata: MetadataForm,
  keychain: o(Type.Array(KeychainForm)),
  executor: o(ExecutorForm),
  workload: o(data('Defaults of the input; merged with the payload of the request. Templates see its keys.')),
  workbook: o(Type.Array(WorkbookForm, { description: 'Reusable tasks.' })),
  workflow: Type.Array(StepForm, { minItems: 1, description: 'The steps.' }),
  spec: o(any('Ignored, but visible to templates.')),
  tracing: o(any('Ignored, but visible to templates.')),
});

/** A form of the language, as far as the compiler needs it. */
export interface Form {
  readonly properties: Readonly<Record<string, TSchema>>;
  readonly required?: readonly string[] | undefined;
}
