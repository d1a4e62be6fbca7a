/** Spellings of the language before v10, by where they stand, with what to write instead. */
export const PRE_V10 = {
  root: {
    vars: 'put constants under `workload`, and what changes into `ctx` with `set: {ctx.NAME: ...}`',
    name: 'write `metadata: {name: ...}`',
    path: 'write `metadata: {path: ...}`',
    version: 'write `metadata: {version: ...}`',
    description: 'write `metadata: {description: ...}`',
    steps: 'write `workflow:` with a list of `- step: NAME`',
    tasks: 'write `workbook:` with a list of `- name: NAME, tool: {kind: ...}`',
  },
  step: {
    when: 'write `spec: {policy: {admit: {rules: [{when: "{{ ... }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}`',
    case: 'put conditions on arcs (`next: {arcs: [{step: NAME, when: "{{ ... }}"}]}`) and outcomes into `spec.policy.rules` of the task',
    eval: 'write rules under `spec: {policy: {rules: [...]}}` of the task',
    expr: 'write `when`',
    sink: 'add a task that stores the result to the list under `tool`',
    save: 'add a task that stores the result to the list under `tool`',
    retry:
      'write `spec: {policy: {failure: {retry: {attempts: N, delay: SECONDS}}}}`, or a rule with `do: retry` on the task',
    vars: 'write `set: {ctx.NAME: "{{ ... }}"}`',
    type: 'write `tool: {kind: ...}`',
    call: 'write `tool: {kind: ...}`',
    args: 'write `input` on the step or its tool; an arc passes values with `args`',
    with: 'write `input`',
    data: 'write `input`',
    iterator: 'write `loop: {in: "{{ ... }}", iterator: NAME}`',
    as: 'read the result by the name of the step',
    pass: 'write `set: {ctx.NAME: "{{ ... }}"}`',
  },
  loop: {
    collection: 'write `in`',
    items: 'write `in`',
    element: 'write `iterator`',
    concurrency: 'write `spec: {max_in_flight: N}`',
  },
  task: {
    eval: 'write rules under `spec: {policy: {rules: [...]}}`',
    expr: 'write `when` in a rule',
    case: 'write rules under `spec: {policy: {rules: [...]}}`',
    sink: 'add a task that stores the result behind this one',
    when: 'put a condition on the arc, or a rule under `spec: {policy: {rules: [...]}}` of the task before',
    type: 'write `kind`',
  },
  rule: { expr: 'write `when`', do: 'write `then: {do: ...}`' },
  arc: { then: 'write `step`', data: 'write `args`', with: 'write `args`', expr: 'write `when`' },
} as const satisfies Record<string, Record<string, string>>;

export type Place = keyof typeof PRE_V10;

export const NEXT_LIST =
  'write `next: {arcs: [{step: NAME, when: "{{ ... }}"}]}`, with `spec: {mode: inclusive}` to follow every match';
