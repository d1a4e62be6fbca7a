import type { Plan, PlanStep, Task } from '../contracts/plan.ts';
import { inferCapabilities } from './capabilities.ts';
import { type ChildReference, type CompileContext, compact } from './compile-context.ts';
import { at, FormReader, shorten, under } from './form-reader.ts';
import { checkGraph } from './graph.ts';
import { LIMITS } from './limits.ts';
import { getField, isText, type Json, type Located, type LocatedMap, toJson } from './located.ts';
import { readName } from './names.ts';
import { API_VERSIONS, ExecutorForm, PlaybookForm, PROFILES, WorkbookForm } from './playbook-schema.ts';
import type { ProblemList } from './problems.ts';
import { localNames } from './read-assignments.ts';
import { readKeychain } from './read-keychain.ts';
import { readMetadata } from './read-metadata.ts';
import { readTarget } from './read-next.ts';
import { readStep, readStepNames } from './read-step.ts';
import { readTask } from './read-task.ts';
import { PlaybookScope, RESERVED_WORDS } from './scopes.ts';
import { findSecrets, SECRET_CURE } from './secrets.ts';
import type { Position, SourceFile } from './source-file.ts';
import { TemplateChecker } from './template-checker.ts';
import type { ToolForm } from './tool-forms.ts';

/** A plan that still lacks what only its children and its hash can give. */
export interface PlaybookDraft {
  readonly plan: Omit<Plan, 'schemaVersion' | 'children' | 'metadata'> & {
    metadata: Omit<Plan['metadata'], 'planVersion'>;
  };
  readonly version: string | undefined;
  readonly children: readonly ChildReference[];
  readonly positions: ReadonlyMap<string, Position>;
}

/** Root keys that mean nothing to the runner, but that templates see. */
const INERT = ['spec', 'tracing'] as const;

/** Reads a located document as a playbook. The draft is usable only if no problem was found. */
export function readPlaybook(
  root: Located,
  source: SourceFile,
  problems: ProblemList,
  tools: Readonly<Record<string, ToolForm>>,
): PlaybookDraft | undefined {
  const reader = new FormReader(source, problems);
  for (const { node, path, what } of findSecrets(root)) {
    problems.hide(node.offset, node.end);
    reader.problem('SECRET_IN_PLAN', node, path, `${what} holds a secret value; ${SECRET_CURE}`);
  }
  if (root.kind !== 'map') {
    reader.problem(
      'INVALID_STEP_SCHEMA',
      root,
      '',
      'a playbook is a mapping that begins with `apiVersion: runledger/v1`',
    );
    return undefined;
  }
  const map = reader.item(root, '', PlaybookForm, 'root');
  if (!map) return undefined;
  readVersions(reader, map);
  const workflow = reader.list(getField(map, 'workflow'), 'workflow');
  const steps = workflow?.items ?? [];
  if (steps.length === 0) {
    if (workflow)
      reader.problem('INVALID_STEP_SCHEMA', map, 'workflow', 'the workflow has no steps; add `- step: start`');
    return undefined;
  }
  if (steps.length > LIMITS.steps) {
    reader.problem(
      'TOO_LARGE',
      map,
      'workflow',
      `a playbook may have ${LIMITS.steps} steps; this one has ${steps.length}`,
    );
    return undefined;
  }
  const names = readStepNames({ reader }, steps);
  const workload = readData(reader, map, 'workload');
  const inert = INERT.filter((key) => getField(map, key));
  warnAboutShadows(reader, names, steps, workload);
  const context: CompileContext = {
    reader,
    templates: new TemplateChecker(reader),
    scope: new PlaybookScope({ steps: names, workload: workload?.entries.keys() ?? [], inert }),
    tools,
    stepNames: new Set(names),
    workbookNames: workbookNames(map),
    children: [],
  };
  const executor = readExecutor(context, map);
  const metadata = readMetadata(context, map);
  const planSteps = steps.flatMap((node, i): PlanStep[] => {
    const step = readStep(context, node, names[i]!, i);
    return step ? [step] : [];
  });
  const workbook = readWorkbook(context, map, steps);
  const keychain = readKeychain(context, map);
  const entry = executor.entry ?? (context.stepNames.has('start') ? 'start' : names[0]!);
  checkGraph(reader, planSteps, steps, entry, executor.final);
  const requires = [
    ...new Set([...metadata.requires, ...executor.requires, ...inferCapabilities(planSteps, workbook)]),
  ].sort();
  const plan = compact({
    metadata: compact({ ...metadata.fields, requiresCapabilities: requires.length > 0 ? requires : undefined }),
    entryStep: entry,
    finalStep: executor.final,
    noNextIsError: executor.noNextIsError === true ? true : undefined,
    workload: workload ? (context.templates.data(workload, 'workload') as Record<string, Json>) : {},
    keychain,
    executor: executor.data,
    limits: executor.limits,
    inert:
      inert.length > 0
        ? Object.fromEntries(inert.map((key) => [key, context.templates.data(getField(map, key)!, key)]))
        : undefined,
    workbook,
    steps: planSteps,
  });
  return {
    plan: plan as PlaybookDraft['plan'],
    version: metadata.version,
    children: context.children,
    positions: reader.positions,
  };
}

function readVersions(reader: FormReader, map: LocatedMap): void {
  const version = getField(map, 'apiVersion');
  if (isText(version) && /^noetl\.io\/v1$/.test(version.value)) {
    reader.problem('PRE_V10', version, 'apiVersion', 'write `apiVersion: noetl.io/v2` and the v10 form of the steps');
  } else reader.word(version, 'apiVersion', API_VERSIONS);
  reader.word(getField(map, 'kind'), 'kind', ['Playbook']);
}

function readData(reader: FormReader, map: LocatedMap, key: string): LocatedMap | undefined {
  const node = getField(map, key);
  return node && reader.map(node, key);
}

function warnAboutShadows(
  reader: FormReader,
  names: readonly string[],
  steps: readonly Located[],
  workload: LocatedMap | undefined,
): void {
  for (const [i, name] of names.entries()) {
    if (!workload?.entries.has(name)) continue;
    const message = `the step hides the workload's key of the same name; templates reach that as \`workload.${shorten(name)}\``;
    reader.problem('SHADOWED_NAME', steps[i]!, at('workflow', i), message);
  }
}

function workbookNames(map: LocatedMap): ReadonlySet<string> {
  const list = getField(map, 'workbook');
  const names = new Set<string>();
  for (const item of list?.kind === 'list' ? list.items : []) {
    const name = item.kind === 'map' ? getField(item, 'name') : undefined;
    if (isText(name)) names.add(name.value);
  }
  return names;
}

function readWorkbook(context: CompileContext, map: LocatedMap, steps: readonly Located[]): Record<string, Task> {
  const { reader } = context;
  const list = reader.list(getField(map, 'workbook'), 'workbook');
  const workbook: Record<string, Task> = {};
  if (!list) return workbook;
  // A workbook task is called from any pipeline, so its templates may use the names of all of them.
  const callers = callerNames(steps);
  for (const [i, item] of list.items.entries()) {
    const path = at('workbook', i);
    const entry = reader.item(item, path, WorkbookForm);
    const named = entry && getField(entry, 'name');
    const tool = entry && getField(entry, 'tool');
    const name = named && readName(reader, named, under(path, 'name'), 'task');
    const toolMap = tool && reader.map(tool, under(path, 'tool'));
    const assertion = entry?.entries.get('assert');
    if (assertion)
      reader.problem(
        'IGNORED_FIELD',
        assertion.keyOffset,
        under(path, 'assert'),
        '`assert` has no effect; check the result in a rule',
      );
    if (name === undefined || !toolMap) continue;
    if (Object.hasOwn(workbook, name)) {
      reader.problem('DUPLICATE_NAME', named!, under(path, 'name'), `the workbook has another task '${shorten(name)}'`);
      continue;
    }
    const pointer = `/workbook/${name}`;
    const place = { pointer, names: callers, taskNames: [name], index: 0, fed: true };
    const task = readTask(context, { name, map: toolMap, path: under(path, 'tool') }, place);
    if (task?.kind === 'workbook') {
      reader.problem(
        'INVALID_STEP_SCHEMA',
        toolMap,
        under(path, 'tool'),
        'a workbook task cannot run another one; name it in a step',
      );
    } else if (task) workbook[name] = task;
  }
  return workbook;
}

function callerNames(steps: readonly Located[]): { tasks: Set<string>; locals: Set<string>; iterator: undefined } {
  const locals = new Set<string>(['input']);
  const tasks = new Set<string>();
  for (const step of steps) {
    if (step.kind !== 'map') continue;
    inputNames(step, locals);
    const loop = getField(step, 'loop');
    const iterator = loop?.kind === 'map' ? (getField(loop, 'iterator') ?? undefined) : undefined;
    if (loop) locals.add(isText(iterator) ? iterator.value : 'item');
    const tool = getField(step, 'tool');
    for (const [i, task] of (tool?.kind === 'list' ? tool.items : []).entries()) {
      if (task.kind !== 'map') continue;
      const label = task.entries.size === 1 ? [...task.entries.values()][0] : undefined;
      const name = getField(task, 'name');
      tasks.add(isText(name) ? name.value : label && label.key !== 'kind' ? label.key : `task_${i}`);
      const body = label?.value.kind === 'map' ? label.value : task;
      localNames(body, locals);
      inputNames(body, locals);
    }
    if (tool?.kind === 'map') {
      localNames(tool, locals);
      inputNames(tool, locals);
    }
  }
  return { tasks, locals, iterator: undefined };
}

/** A workbook task sees what its caller gives it as `input`, and each key of that by its own name. */
function inputNames(map: LocatedMap, into: Set<string>): void {
  for (const spelling of ['input', 'args', 'payload']) {
    const given = getField(map, spelling);
    if (given?.kind === 'map') for (const name of given.entries.keys()) if (!RESERVED_WORDS.has(name)) into.add(name);
  }
}

interface ExecutorPart {
  readonly entry: string | undefined;
  readonly final: string | undefined;
  readonly noNextIsError: boolean | undefined;
  readonly requires: readonly string[];
  readonly limits: Plan['limits'];
  readonly data: Record<string, Json> | undefined;
}

function readExecutor(context: CompileContext, map: LocatedMap): ExecutorPart {
  const { reader, tools } = context;
  const executor = reader.form(getField(map, 'executor'), 'executor', ExecutorForm);
  const forms = ExecutorForm.properties;
  const requires = reader.form(executor && getField(executor, 'requires'), 'executor.requires', forms.requires);
  const spec = reader.form(executor && getField(executor, 'spec'), 'executor.spec', forms.spec);
  const policy = reader.form(spec && getField(spec, 'policy'), 'executor.spec.policy', forms.spec.properties.policy);
  const list = (name: string): string[] =>
    reader.ids(requires && getField(requires, name), `executor.requires.${name}`) ?? [];
  const toolNames = list('tools');
  for (const name of toolNames) {
    if (Object.hasOwn(tools, name)) continue;
    const near = reader.suggest(name, Object.keys(tools)) ?? '';
    reader.problem(
      'UNKNOWN_TOOL',
      getField(requires!, 'tools')!,
      'executor.requires.tools',
      `there is no tool '${shorten(name)}'${near}`,
    );
  }
  const { limits, rest } = readLimits(context, policy);
  const section = (name: 'defaults' | 'results'): Json | undefined => {
    const node = policy && getField(policy, name);
    return node && reader.map(node, `executor.spec.policy.${name}`)
      ? context.templates.data(node, `executor.spec.policy.${name}`)
      : undefined;
  };
  const data = compact({
    profile: reader.word(executor && getField(executor, 'profile'), 'executor.profile', PROFILES),
    version: executor && reader.label(getField(executor, 'version'), 'executor.version'),
    tools: toolNames.length > 0 ? [...new Set(toolNames)].sort() : undefined,
    defaults: section('defaults'),
    results: section('results'),
    limits: rest,
  }) as Record<string, Json>;
  return {
    entry: readTarget(context, spec && getField(spec, 'entry_step'), 'executor.spec.entry_step'),
    final: readTarget(context, spec && getField(spec, 'final_step'), 'executor.spec.final_step'),
    noNextIsError: reader.flag(spec && getField(spec, 'no_next_is_error'), 'executor.spec.no_next_is_error'),
    requires: [...list('capabilities'), ...list('features')],
    limits,
    data: Object.keys(data).length > 0 ? data : undefined,
  };
}

const KNOWN_LIMITS: ReadonlyMap<string, 'maxSteps' | 'maxJumps'> = new Map([
  ['max_steps', 'maxSteps'],
  ['max_jumps', 'maxJumps'],
]);

function readLimits(
  context: CompileContext,
  policy: LocatedMap | undefined,
): { limits: Plan['limits']; rest: Json | undefined } {
  const { reader } = context;
  const node = policy && getField(policy, 'limits');
  const map = node && reader.map(node, 'executor.spec.policy.limits');
  if (!map) return { limits: undefined, rest: undefined };
  const limits: { maxSteps?: number; maxJumps?: number } = {};
  const rest: Record<string, Json> = {};
  for (const { key, value } of map.entries.values()) {
    const known = KNOWN_LIMITS.get(key);
    if (!known) rest[key] = toJson(value, '');
    else {
      const count = reader.count(value, `executor.spec.policy.limits.${key}`);
      if (count !== undefined) limits[known] = count;
    }
  }
  return {
    limits: Object.keys(limits).length > 0 ? limits : undefined,
    rest: Object.keys(rest).length > 0 ? rest : undefined,
  };
}
