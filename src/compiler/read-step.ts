import { BACKOFFS, type PlanStep, type Task } from '../contracts/plan.ts';
import { type CompileContext, compact } from './compile-context.ts';
import { at, type Path, shorten, under } from './form-reader.ts';
import { LIMITS } from './limits.ts';
import { getField, isText, type Located, type LocatedMap } from './located.ts';
import { readName } from './names.ts';
import {
  AdmitForm,
  AdmitRuleForm,
  AdmitThenForm,
  FAILURE_MODES,
  FailureForm,
  LifecycleForm,
  OutputForm,
  StepForm,
  StepPolicyForm,
  StepRetryForm,
  StepSpecForm,
} from './playbook-schema.ts';
import { localNames, readSet } from './read-assignments.ts';
import { iteratorName, readLoop } from './read-loop.ts';
import { readNext } from './read-next.ts';
import { readTask, type TaskDraft } from './read-task.ts';
import type { PipelineNames } from './scopes.ts';

export function readStep(context: CompileContext, node: Located, name: string, index: number): PlanStep | undefined {
  const { reader, scope } = context;
  const path = at('workflow', index);
  const pointer = `/steps/${index}`;
  reader.mark(pointer, node);
  const map = reader.item(node, path, StepForm, 'step');
  if (!map) return undefined;
  const drafts = readDrafts(context, map, path);
  const locals = new Set<string>();
  for (const draft of drafts) localNames(draft.map, locals);
  const taskNames = drafts.map((draft) => draft.name);
  const names: PipelineNames = { tasks: taskNames, locals, iterator: iteratorName(map) };
  const input = getField(map, 'input');
  const tasks = drafts.flatMap((draft, i): Task[] => {
    const place = { pointer: `${pointer}/tasks/${i}`, names, taskNames, index: i, fed: input !== undefined };
    const task = readTask(context, draft, place);
    return task ? [task] : [];
  });
  const spec = readStepSpec(context, map, path, pointer);
  const step = compact({
    stepId: name,
    index,
    desc: reader.text(getField(map, 'desc'), under(path, 'desc')),
    join: reader.word(getField(map, 'join'), under(path, 'join'), ['all']),
    ...spec,
    loop: readLoop(context, map, path, pointer),
    tasks,
    input: input
      ? context.templates.value(input, under(path, 'input'), `${pointer}/input`, scope.at('input', names))
      : undefined,
    set: readSet(context, map, {
      path,
      pointer,
      scope: scope.at(getField(map, 'loop') ? 'loopSet' : 'stepSet', names),
      inPipeline: false,
    }),
    output: readOutput(context, map, path),
    next: readNext(context, map, path, pointer),
    reaches: [],
  });
  if (drafts.length === 0) checkEmptyStep(context, map, path, name);
  return step as PlanStep;
}

function checkEmptyStep(context: CompileContext, map: LocatedMap, path: Path, name: string): void {
  const { reader } = context;
  const tool = getField(map, 'tool');
  const isEmptyTool = tool === undefined || (tool.kind === 'list' && tool.items.length === 0);
  if (isEmptyTool && !getField(map, 'next')) {
    const message = `step '${shorten(name)}' needs \`tool\` or \`next\`; write \`tool: {kind: noop}\` if it does nothing`;
    reader.problem('INVALID_STEP_SCHEMA', map, path, message);
  }
  const loop = map.entries.get('loop');
  if (isEmptyTool && loop) {
    reader.problem(
      'INVALID_STEP_SCHEMA',
      loop.keyOffset,
      under(path, 'loop'),
      'a loop needs a `tool` to run for each item',
    );
  }
}

/** One task, a list of tasks, or a list of `label: task`; each gets its name. */
function readDrafts(context: CompileContext, step: LocatedMap, path: Path): TaskDraft[] {
  const { reader } = context;
  const node = getField(step, 'tool');
  if (node === undefined) return [];
  const toolPath = under(path, 'tool');
  const items = node.kind === 'list' ? node.items : [node];
  if (items.length > LIMITS.tasksPerStep) {
    reader.problem(
      'TOO_LARGE',
      node,
      toolPath,
      `a step may have ${LIMITS.tasksPerStep} tasks; this one has ${items.length}`,
    );
    return [];
  }
  const drafts: TaskDraft[] = [];
  const seen = new Map<string, number>();
  for (const [i, item] of items.entries()) {
    const itemPath = node.kind === 'list' ? at(toolPath, i) : toolPath;
    const draft = readDraft(context, item, itemPath, i);
    if (!draft) continue;
    const first = seen.get(draft.name);
    if (first === undefined) seen.set(draft.name, draft.map.offset);
    else {
      const line = reader.source.position(first).line;
      reader.problem(
        'DUPLICATE_NAME',
        draft.map,
        draft.path,
        `the task in line ${line} is named '${shorten(draft.name)}' too`,
      );
    }
    drafts.push(draft);
  }
  return drafts;
}

function readDraft(context: CompileContext, node: Located, path: Path, index: number): TaskDraft | undefined {
  const { reader } = context;
  const map = reader.map(node, path);
  if (!map) return undefined;
  const only = map.entries.size === 1 ? [...map.entries.values()][0]! : undefined;
  if (only && only.key !== 'kind' && only.value.kind === 'map') {
    const label: Located = {
      kind: 'scalar',
      offset: only.keyOffset,
      end: only.keyOffset,
      value: only.key,
      style: 'plain',
      written: only.key,
    };
    const name = readName(reader, label, under(path, only.key), 'task');
    return { name: name ?? `task_${index}`, map: only.value, path: under(path, only.key) };
  }
  const named = getField(map, 'name');
  if (named === undefined) return { name: `task_${index}`, map, path };
  return { name: readName(reader, named, under(path, 'name'), 'task') ?? `task_${index}`, map, path };
}

function readStepSpec(context: CompileContext, map: LocatedMap, path: Path, pointer: string) {
  const { reader, templates } = context;
  const scope = context.scope.at('step');
  const specPath = under(path, 'spec');
  const spec = reader.form(getField(map, 'spec'), specPath, StepSpecForm);
  const policyPath = under(specPath, 'policy');
  const policy = reader.form(spec && getField(spec, 'policy'), policyPath, StepPolicyForm);
  const lifecyclePath = under(policyPath, 'lifecycle');
  const lifecycle = reader.form(policy && getField(policy, 'lifecycle'), lifecyclePath, LifecycleForm);
  const inLifecycle = reader.oneOf(lifecycle, lifecyclePath, 'timeout_s');
  const inSpec = reader.oneOf(spec, specPath, 'timeout');
  if (inLifecycle && inSpec) {
    reader.problem(
      'CONFLICT',
      inSpec.node,
      inSpec.path,
      '`spec.timeout` is another spelling of `spec.policy.lifecycle.timeout_s`; keep one',
    );
  }
  const timeout = inLifecycle ?? inSpec;
  return {
    admit: readAdmit(context, policy, policyPath, pointer),
    timeoutS:
      timeout &&
      templates.amount(reader.seconds(timeout.node, timeout.path), timeout.path, `${pointer}/timeoutS`, scope),
    failure: readFailure(context, policy, policyPath, pointer),
  };
}

function readFailure(
  context: CompileContext,
  policy: LocatedMap | undefined,
  path: Path,
  pointer: string,
): PlanStep['failure'] {
  const { reader, templates } = context;
  const failurePath = under(path, 'failure');
  const failure = reader.form(policy && getField(policy, 'failure'), failurePath, FailureForm);
  if (!failure) return undefined;
  const retryPath = under(failurePath, 'retry');
  const retry = reader.form(getField(failure, 'retry'), retryPath, StepRetryForm);
  const amount = (name: string, field: string, minimum: number) =>
    templates.amount(
      reader.amount(retry && getField(retry, name), under(retryPath, name), minimum),
      under(retryPath, name),
      `${pointer}/failure/retry/${field}`,
      context.scope.at('step'),
    );
  const attempts = amount('attempts', 'attempts', 1);
  const read = {
    mode: reader.word(getField(failure, 'mode'), under(failurePath, 'mode'), FAILURE_MODES),
    retry:
      attempts === undefined
        ? undefined
        : compact({
            attempts,
            delay: amount('delay', 'delay', 0),
            backoff: reader.word(retry && getField(retry, 'backoff'), under(retryPath, 'backoff'), BACKOFFS),
            maxDelay: amount('max_delay', 'maxDelay', 0),
          }),
  };
  return compact(read) as PlanStep['failure'];
}

function readAdmit(
  context: CompileContext,
  policy: LocatedMap | undefined,
  path: Path,
  pointer: string,
): PlanStep['admit'] {
  const { reader, templates } = context;
  const admitPath = under(path, 'admit');
  const admit = reader.form(policy && getField(policy, 'admit'), admitPath, AdmitForm);
  if (!admit) return undefined;
  reader.word(getField(admit, 'mode'), under(admitPath, 'mode'), ['exclusive']);
  const rulesPath = under(admitPath, 'rules');
  const rules: NonNullable<PlanStep['admit']>['rules'] = [];
  let closed: Path | undefined;
  for (const [i, item] of (reader.list(getField(admit, 'rules'), rulesPath)?.items ?? []).entries()) {
    const rulePath = at(rulesPath, i);
    const map = reader.item(item, rulePath, AdmitRuleForm, 'rule');
    if (!map) continue;
    if (closed)
      reader.problem(
        'UNREACHABLE_RULE',
        map,
        rulePath,
        `this rule is never tried, because ${closed} always matches; put the \`else\` last`,
      );
    const rulePointer = `${pointer}/admit/rules/${rules.length}`;
    reader.mark(rulePointer, map);
    const when = templates.condition(map, under(rulePath, 'when'), `${rulePointer}/when`, context.scope.at('admit'));
    if (when === undefined || when === true) closed ??= rulePath;
    const then = admitThen(context, map, rulePath);
    if (!then) continue;
    rules.push(when === undefined || when === true ? then : { when, ...then });
  }
  return rules.length > 0 ? { rules } : undefined;
}

function admitThen(
  context: CompileContext,
  rule: LocatedMap,
  path: Path,
): { allow: boolean; reason?: string } | undefined {
  const { reader } = context;
  const otherwise = getField(rule, 'else');
  for (const name of otherwise ? ['when', 'then'] : []) {
    const extra = rule.entries.get(name);
    if (extra)
      reader.problem('CONFLICT', extra.keyOffset, under(path, name), `a rule has either \`else\` or \`${name}\``);
  }
  const outer = otherwise ? reader.map(otherwise, under(path, 'else')) : rule;
  if (!outer) return undefined;
  const inner = getField(outer, 'then') ?? (otherwise ? outer : undefined);
  const thenPath = otherwise ? under(path, inner === outer ? 'else' : 'else.then') : under(path, 'then');
  if (!inner) {
    reader.missing(rule, path, 'then');
    return undefined;
  }
  if (otherwise && inner !== outer) reader.fields(outer, under(path, 'else'), ['then']);
  const then = reader.form(inner, thenPath, AdmitThenForm);
  const allow = then && reader.flag(getField(then, 'allow'), under(thenPath, 'allow'));
  if (allow === undefined) return undefined;
  return compact({ allow, reason: reader.text(getField(then!, 'reason'), under(thenPath, 'reason')) });
}

function readOutput(context: CompileContext, map: LocatedMap, path: Path): PlanStep['output'] {
  const { reader } = context;
  const outputPath = under(path, 'output');
  const output = reader.form(getField(map, 'output'), outputPath, OutputForm);
  if (!output) return undefined;
  const store = getField(output, 'store');
  const select = reader.oneOf(output, outputPath, 'output_select', 'select');
  const read = {
    store: store && context.templates.data(store, under(outputPath, 'store')),
    select: select && reader.ids(select.node, select.path),
  };
  return compact(read) as PlanStep['output'];
}

/** The names of the steps, in order, with a stand-in for each that has none of its own. */
export function readStepNames(context: Pick<CompileContext, 'reader'>, steps: readonly Located[]): string[] {
  const { reader } = context;
  const seen = new Map<string, Located>();
  return steps.map((node, i) => {
    const path = at('workflow', i);
    const standIn = `step_${i}`;
    if (node.kind !== 'map') return standIn;
    const named = getField(node, 'step');
    if (!named) return standIn;
    const name = readName(reader, named, under(path, 'step'), 'step');
    if (name === undefined) return isText(named) ? named.value : standIn;
    const first = seen.get(name);
    if (first) {
      const line = reader.source.position(first.offset).line;
      reader.problem(
        'DUPLICATE_NAME',
        named,
        under(path, 'step'),
        `the step in line ${line} is named '${shorten(name)}' too`,
      );
    } else seen.set(name, named);
    return name;
  });
}
