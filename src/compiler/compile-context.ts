import type { Task } from '../contracts/plan.ts';
import type { FormReader, Path } from './form-reader.ts';
import type { Located } from './located.ts';
import type { PlaybookScope } from './scopes.ts';
import type { TemplateChecker } from './template-checker.ts';
import type { ToolForm } from './tool-forms.ts';

/** A sub-playbook that a task names by a fixed path. */
export interface ChildReference {
  readonly path: string;
  readonly where: Located;
  readonly playbookPath: Path;
  readonly returnStep: { readonly name: string; readonly where: Located } | undefined;
  /** The task in the plan, which gets the exact version when the child is compiled. */
  readonly task: Task;
}

/** What the readers of one playbook share. */
export interface CompileContext {
  readonly reader: FormReader;
  readonly templates: TemplateChecker;
  readonly scope: PlaybookScope;
  readonly tools: Readonly<Record<string, ToolForm>>;
  readonly stepNames: ReadonlySet<string>;
  readonly workbookNames: ReadonlySet<string>;
  readonly children: ChildReference[];
}

/** The same object without fields that are undefined: an absent field and an empty one must give the same bytes. */
export function compact<T extends object>(object: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const out: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(object)) if (value !== undefined) out[key] = value;
  return out as { [K in keyof T]: Exclude<T[K], undefined> };
}
