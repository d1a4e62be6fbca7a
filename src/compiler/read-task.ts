import type { Task } from '../contracts/plan.ts';
import { hasTemplate } from '../kernel/expressions/scan-blocks.ts';
import { type CompileContext, compact } from './compile-context.ts';
import { type Path, shorten, under } from './form-reader.ts';
import {
  getField,
  isText,
  type Json,
  type Located,
  type LocatedEntry,
  type LocatedMap,
  type LocatedScalar,
  pointerPart,
  toJson,
} from './located.ts';
import {
  EFFECT_CLASSES,
  EFFECT_SCOPES,
  EffectForm,
  ON_UNKNOWN,
  ResultForm,
  TaskForm,
  TaskSpecForm,
  TIERS,
} from './playbook-schema.ts';
import { PRE_V10 } from './pre-v10.ts';
import { readSet } from './read-assignments.ts';
import { readTaskPolicy } from './read-policy.ts';
import type { PipelineNames, Scope } from './scopes.ts';
import type { ToolForm } from './tool-forms.ts';

/** A task as it stands in the pipeline, before its fields are read. */
export interface TaskDraft {
  readonly name: string;
  readonly map: LocatedMap;
  readonly path: Path;
}

export interface TaskPlace {
  readonly pointer: string;
  readonly names: PipelineNames;
  readonly taskNames: readonly string[];
  readonly index: number;
  /** The step has an `input`, which may bring what the tool needs. */
  readonly fed: boolean;
}

const COMMON: ReadonlySet<string> = new Set(Object.keys(TaskForm.properties));
const SPEC: ReadonlySet<string> = new Set(Object.keys(TaskSpecForm.properties));
/** Fields that playbooks carry and that mean nothing: saying so is kinder than refusing the playbook. */
const IGNORED: Readonly<Record<string, readonly string[]>> = { playbook: ['task'], noop: ['code'] };
const ANY_TOOL: ToolForm = { summary: '', fields: {}, open: true };
const END_RAW = /\{%[-+]?\s*endraw\s*[-+]?%\}/;
const TEMPLATE_IN_CODE = /\{\{ [A-Za-z_][\w.]*(?: \|[^{}]*)? \}\}/;

export function readTask(context: CompileContext, draft: TaskDraft, place: TaskPlace): Task | undefined {
  const { reader, scope } = context;
  const { map, path } = draft;
  const { pointer } = place;
  reader.mark(pointer, map);
  const kind = readKind(context, map, path);
  if (kind === undefined) return undefined;
  const form = context.tools[kind] ?? ANY_TOOL;
  const before = scope.at('task', place.names);
  const after = scope.at('policy', place.names);
  const spec = readSpec(context, map, path, kind);
  const fields = new ToolFields(context, form, kind, place);
  for (const entry of map.entries.values()) {
    if (kind === 'workbook' && entry.key === 'name') continue;
    if (!COMMON.has(entry.key)) fields.read(entry, path);
  }
  for (const entry of spec?.entries.values() ?? []) {
    if (!SPEC.has(entry.key) && fields.knows(entry.key)) fields.read(entry, under(path, 'spec'));
  }
  if (kind === 'workbook') readWorkbookName(context, map, path, fields);
  fields.checkNeeds(map, path);
  const retry = map.entries.get('retry');
  const policyPlace = { taskNames: place.taskNames, index: place.index, before, after };
  const task: Task = compact({
    name: draft.name,
    kind,
    with: fields.values,
    policy: readTaskPolicy(
      context,
      spec,
      retry && { node: retry.value, path: under(path, 'retry') },
      under(path, 'spec'),
      pointer,
      policyPlace,
    ),
    set: readSet(context, map, { path, pointer, scope: after, inPipeline: true }),
    timeout: readTimeout(context, map, spec, path, pointer, before),
    result: readResult(context, map, spec, path),
    effect: readEffect(context, map, path, pointer, place),
  });
  if (kind === 'playbook') noteChild(context, map, path, task);
  return task;
}

function readKind(context: CompileContext, map: LocatedMap, path: Path): string | undefined {
  const { reader, tools } = context;
  const node = getField(map, 'kind');
  if (!node) {
    const old = map.entries.get('type');
    if (old)
      reader.problem(
        'PRE_V10',
        old.keyOffset,
        under(path, 'type'),
        `\`type\` is the language before v10: ${PRE_V10.task.type}`,
      );
    else reader.missing(map, path, 'kind');
    return undefined;
  }
  const kind = reader.id(node, under(path, 'kind'));
  if (kind === undefined) return undefined;
  const form = Object.hasOwn(tools, kind) ? tools[kind] : undefined;
  if (!form) {
    const near = reader.suggest(kind, Object.keys(tools)) ?? `; there are ${available(tools).join(', ')}`;
    reader.problem('UNKNOWN_TOOL', node, under(path, 'kind'), `there is no tool '${shorten(kind)}'${near}`);
  } else if (form.external) {
    const message = `the tool '${kind}' is not built in; the step fails with TOOL_UNAVAILABLE where nobody defines it`;
    reader.problem('TOOL_UNAVAILABLE', node, under(path, 'kind'), message);
  }
  return kind;
}

/** Kinds that run as they are: those of the language that somebody else has to define are no help to one who looks for a name. */
const available = (tools: CompileContext['tools']): string[] =>
  Object.keys(tools)
    .filter((kind) => tools[kind]?.external !== true)
    .sort();

/** `spec` of a task; that of an http task may hold the tool's own fields too. */
function readSpec(context: CompileContext, map: LocatedMap, path: Path, kind: string): LocatedMap | undefined {
  const node = getField(map, 'spec');
  const form = context.tools[kind];
  const own = kind === 'http' && form ? [...Object.keys(form.fields), ...Object.keys(form.aliases ?? {})] : [];
  return context.reader.form(node, under(path, 'spec'), TaskSpecForm, undefined, own);
}

class ToolFields {
  readonly values: Record<string, Json> = {};
  readonly #context: CompileContext;
  readonly #form: ToolForm;
  readonly #kind: string;
  readonly #place: TaskPlace;
  readonly #scope: Scope;

  constructor(context: CompileContext, form: ToolForm, kind: string, place: TaskPlace) {
    this.#context = context;
    this.#form = form;
    this.#kind = kind;
    this.#place = place;
    this.#scope = context.scope.at('tool', place.names);
  }

  knows(key: string): boolean {
    return Object.hasOwn(this.#form.fields, key) || Object.hasOwn(this.#form.aliases ?? {}, key);
  }

  read(entry: LocatedEntry, ownerPath: Path): void {
    const { reader, templates } = this.#context;
    const { key, keyOffset, value } = entry;
    const path = under(ownerPath, key);
    const aliases = this.#form.aliases ?? {};
    const field = Object.hasOwn(aliases, key) ? aliases[key]! : key;
    if (!this.#form.open && !Object.hasOwn(this.#form.fields, field)) {
      this.#unknown(key, keyOffset, path);
      return;
    }
    if (Object.hasOwn(this.values, field)) {
      const message = `\`${shorten(key)}\` gives \`${shorten(field)}\` a second time; keep one of them`;
      reader.problem('CONFLICT', keyOffset, path, message);
      return;
    }
    const pointer = `${this.#place.pointer}/with/${pointerPart(field)}`;
    if (this.#form.verbatim?.includes(field)) {
      this.values[field] = toJson(value, pointer, (text) => this.#verbatim(text, field, path));
      return;
    }
    this.values[field] = templates.value(value, path, pointer, this.#scope);
  }

  /** Every text of a task is a template to the runner, so what is none becomes a template that gives it back. */
  #verbatim(node: LocatedScalar & { value: string }, field: string, path: Path): string {
    const { reader } = this.#context;
    const { value } = node;
    if (!hasTemplate(value)) return value;
    if (TEMPLATE_IN_CODE.test(value)) {
      const message = `\`${field}\` is passed on as it stands, templates in it are not rendered; give the value to the program through \`input\``;
      reader.problem('TEMPLATE_NOT_RENDERED', node, path, message);
    }
    if (END_RAW.test(value)) {
      reader.problem('TEMPLATE_SYNTAX', node, path, `\`${field}\` cannot hold {% endraw %}; load it as a \`script\``);
    }
    return `{% raw %}${value}{% endraw %}`;
  }

  #unknown(key: string, offset: number, path: Path): void {
    const { reader } = this.#context;
    const old: Record<string, string> = PRE_V10.task;
    if (Object.hasOwn(old, key)) {
      reader.problem('PRE_V10', offset, path, `\`${key}\` is the language before v10: ${old[key]}`);
      return;
    }
    if (IGNORED[this.#kind]?.includes(key)) {
      reader.problem('IGNORED_FIELD', offset, path, `\`${key}\` has no effect on ${this.#kind}; remove it`);
      return;
    }
    const known = [...Object.keys(this.#form.fields), ...Object.keys(this.#form.aliases ?? {}), ...COMMON];
    const advice = reader.suggest(key, known) ?? `; it takes ${Object.keys(this.#form.fields).join(', ')}`;
    reader.problem('INVALID_STEP_SCHEMA', offset, path, `${this.#kind} has no field \`${shorten(key)}\`${advice}`);
  }

  checkNeeds(map: LocatedMap, path: Path): void {
    if (this.#place.fed) return;
    for (const group of this.#form.needs ?? []) {
      if (group.some((name) => Object.hasOwn(this.values, name) && this.values[name] !== null)) continue;
      this.#context.reader.problem('INVALID_STEP_SCHEMA', map, path, `${this.#kind} needs \`${group.join('` or `')}\``);
    }
  }
}

/** `name` of a workbook task is the entry of the workbook; `task` says it where `name` names the task itself. */
function readWorkbookName(context: CompileContext, map: LocatedMap, path: Path, fields: ToolFields): void {
  const { reader, workbookNames } = context;
  const node = getField(map, 'task') ?? getField(map, 'name');
  if (!node) {
    reader.missing(map, path, 'name');
    return;
  }
  const name = reader.id(node, under(path, 'name'));
  if (name === undefined) return;
  fields.values['name'] = name;
  if (workbookNames.has(name) || hasTemplate(name)) return;
  const near = reader.suggest(name, workbookNames) ?? '; add it under `workbook`';
  reader.problem(
    'WORKBOOK_TASK_NOT_FOUND',
    node,
    under(path, 'name'),
    `the workbook has no task '${shorten(name)}'${near}`,
  );
}

function readTimeout(
  context: CompileContext,
  map: LocatedMap,
  spec: LocatedMap | undefined,
  path: Path,
  pointer: string,
  scope: Scope,
): number | string | undefined {
  const { reader, templates } = context;
  const own = reader.oneOf(map, path, 'timeout', 'timeout_seconds');
  const inSpec = reader.oneOf(spec, under(path, 'spec'), 'timeout', 'timeout_seconds');
  if (own && inSpec)
    reader.problem('CONFLICT', inSpec.node, inSpec.path, 'the time-out is given twice; keep one of them');
  const found = own ?? inSpec;
  return found && templates.amount(reader.seconds(found.node, found.path), found.path, `${pointer}/timeout`, scope);
}

function readResult(
  context: CompileContext,
  map: LocatedMap,
  spec: LocatedMap | undefined,
  path: Path,
): Task['result'] {
  const { reader } = context;
  const own = map.entries.get('output');
  const inSpec = spec?.entries.get('result');
  if (own && inSpec) {
    reader.problem(
      'CONFLICT',
      own.keyOffset,
      under(path, 'output'),
      '`output` is another spelling of `spec.result`; keep one of them',
    );
  }
  const resultPath = inSpec ? under(path, 'spec.result') : under(path, 'output');
  const result = reader.form((inSpec ?? own)?.value, resultPath, ResultForm);
  if (!result) return undefined;
  const select = reader.oneOf(result, resultPath, 'select', 'output_select');
  const store = getField(result, 'store');
  return compact({
    inlineMaxBytes: reader.count(getField(result, 'inline_max_bytes'), under(resultPath, 'inline_max_bytes')),
    previewMaxBytes: reader.count(getField(result, 'preview_max_bytes'), under(resultPath, 'preview_max_bytes')),
    store: store && context.templates.data(store, under(resultPath, 'store')),
    select: select && reader.ids(select.node, select.path),
  }) as Task['result'];
}

function readEffect(
  context: CompileContext,
  map: LocatedMap,
  path: Path,
  pointer: string,
  place: TaskPlace,
): Task['effect'] {
  const { reader, templates, scope } = context;
  const effectPath = under(path, 'effect');
  const effect = reader.form(getField(map, 'effect'), effectPath, EffectForm);
  if (!effect) return undefined;
  const word = <const T extends readonly string[]>(name: string, words: T): T[number] | undefined =>
    reader.word(getField(effect, name), under(effectPath, name), words);
  const text = (node: Located | undefined, name: string): string | undefined => {
    const value = reader.id(node, under(effectPath, name));
    if (value === undefined || !isText(node)) return undefined;
    return templates.text(node, under(effectPath, name), `${pointer}/effect/${name}`, scope.at('task', place.names));
  };
  const reverse = getField(effect, 'reverse');
  const reversePath = under(effectPath, 'reverse');
  return compact({
    class: word('class', EFFECT_CLASSES),
    key: text(getField(effect, 'key'), 'key'),
    scope: word('scope', EFFECT_SCOPES),
    tier: word('tier', TIERS),
    reverse:
      reverse && reader.map(reverse, reversePath)
        ? (templates.value(
            reverse,
            reversePath,
            `${pointer}/effect/reverse`,
            scope.at('policy', place.names),
          ) as Record<string, Json>)
        : undefined,
    onUnknown: word('on_unknown', ON_UNKNOWN),
  }) as Task['effect'];
}

function noteChild(context: CompileContext, map: LocatedMap, path: Path, task: Task): void {
  const where = getField(map, 'path');
  const name = task.with['path'];
  if (!where || typeof name !== 'string') {
    if (where) context.reader.wrong(where, under(path, 'path'), 'the path of a playbook');
    return;
  }
  if (hasTemplate(name)) return;
  const returned = getField(map, 'return_step');
  const fixed =
    isText(returned) && !hasTemplate(returned.value) ? { name: returned.value, where: returned } : undefined;
  context.children.push({ path: name, where, playbookPath: under(path, 'path'), returnStep: fixed, task });
}
