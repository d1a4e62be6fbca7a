import type { Plan } from '../contracts/plan.ts';
import type { PlanRef } from '../contracts/values.ts';
import { finishPlan } from './finish-plan.ts';
import { LIMITS } from './limits.ts';
import { type Child, linkChildren } from './link-children.ts';
import { type Problem, ProblemList } from './problems.ts';
import { type PlaybookDraft, readPlaybook } from './read-playbook.ts';
import { readYaml } from './read-yaml.ts';
import { SourceFile } from './source-file.ts';
import { TOOL_FORMS, type ToolForm, type UserTool, userToolForm } from './tool-forms.ts';

/** The text of a playbook and the name that problems call it by. */
export interface PlaybookSource {
  readonly text: string;
  readonly file: string;
}

/** Finds the playbook that a task names; `from` is the file that names it. */
type Resolve = (path: string, from: string) => PlaybookSource | undefined | Promise<PlaybookSource | undefined>;
export type ResolveSync = (path: string, from: string) => PlaybookSource | undefined;

export interface CompileOptions {
  /** Without it, sub-playbooks by a fixed path are a problem. */
  readonly resolve?: Resolve | undefined;
  /** Tools beside the built-in ones, by kind. */
  readonly tools?: Readonly<Record<string, UserTool>> | undefined;
  /** Treat warnings as problems. */
  readonly strict?: boolean | undefined;
}

/** Where a part of the plan stands in its playbook. */
export interface PlanPosition {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export interface CompiledPlan {
  readonly plan: Plan;
  /** The plan's bytes: canonical JSON. Their SHA-256 is the identity of the plan. */
  readonly json: string;
  readonly sha256: string;
  readonly planRef: PlanRef;
  /** JSON pointer into the plan -> place in the playbook. Not part of the hash. */
  readonly positions: Readonly<Record<string, PlanPosition>>;
  readonly warnings: readonly Problem[];
}

export type CompileResult =
  | (CompiledPlan & {
      readonly ok: true /** Every sub-playbook, direct or not, by its sha256. */;
      readonly children: ReadonlyMap<string, CompiledPlan>;
    })
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** Compiles a playbook and everything that it names. */
export async function compile(source: PlaybookSource, options: CompileOptions = {}): Promise<CompileResult> {
  const loading = load(source, options);
  let step = loading.next();
  while (!step.done) {
    const { path, from } = step.value;
    step = loading.next(await options.resolve?.(path, from));
  }
  return step.value;
}

/** The same for callers whose `resolve` does not wait. */
export function compileSync(
  source: PlaybookSource,
  options: Omit<CompileOptions, 'resolve'> & { readonly resolve?: ResolveSync | undefined } = {},
): CompileResult {
  const loading = load(source, options);
  let step = loading.next();
  while (!step.done) step = loading.next(options.resolve?.(step.value.path, step.value.from));
  return step.value;
}

/** One playbook that was read, with the files that its tasks name. */
export interface Loaded {
  readonly source: SourceFile;
  readonly problems: ProblemList;
  readonly draft: PlaybookDraft | undefined;
  /** Path in the playbook -> file, undefined where nothing was found. */
  readonly children: Map<string, string | undefined>;
}

/** Reads the playbook and, breadth first, every one that it names; then links them. Yields what it needs to know. */
function* load(
  source: PlaybookSource,
  options: CompileOptions,
): Generator<{ path: string; from: string }, CompileResult, PlaybookSource | undefined> {
  const tools = toolForms(options.tools);
  const loaded = new Map<string, Loaded>();
  const queue: PlaybookSource[] = [source];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    if (loaded.has(next.file)) continue;
    const entry = read(next, tools);
    loaded.set(next.file, entry);
    for (const { path } of entry.draft?.children ?? []) {
      if (entry.children.has(path)) continue;
      const found =
        options.resolve && loaded.size + queue.length < LIMITS.children ? yield { path, from: next.file } : undefined;
      entry.children.set(path, found?.file);
      if (found && !loaded.has(found.file)) queue.push(found);
    }
  }
  const linked = linkChildren(source.file, loaded, options.resolve !== undefined);
  return result(source.file, loaded, linked, options.strict === true);
}

function read(source: PlaybookSource, tools: Readonly<Record<string, ToolForm>>): Loaded {
  // A byte order mark is no part of the text, and would push the first column aside.
  const text = source.text.charCodeAt(0) === 0xfeff ? source.text.slice(1) : source.text;
  const file = new SourceFile(source.file, text);
  const problems = new ProblemList(file, LIMITS.problems);
  const root = readYaml(file, problems);
  const draft = root && readPlaybook(root, file, problems, tools);
  return { source: file, problems, draft, children: new Map() };
}

function toolForms(own: CompileOptions['tools']): Readonly<Record<string, ToolForm>> {
  if (!own) return TOOL_FORMS;
  const forms = Object.entries(own).map(([kind, tool]) => [kind, userToolForm(tool)] as const);
  return { ...TOOL_FORMS, ...Object.fromEntries(forms) };
}

function result(
  main: string,
  loaded: ReadonlyMap<string, Loaded>,
  linked: ReadonlyMap<string, Child>,
  strict: boolean,
): CompileResult {
  const problems = [...loaded.values()].flatMap((entry) => entry.problems.list());
  if (problems.some((problem) => strict || problem.severity === 'error')) return { ok: false, problems };
  const children = new Map<string, CompiledPlan>();
  let compiled: CompiledPlan | undefined;
  for (const [file, child] of linked) {
    const entry = loaded.get(file)!;
    const plan = finishPlan(child, entry);
    if (file === main) compiled = plan;
    else children.set(plan.sha256, plan);
  }
  return { ok: true, ...compiled!, children };
}
