import { printable, type SourceFile } from './source-file.ts';

/** Every code that a problem can carry, what it means, and whether the playbook can still be compiled. */
export const PROBLEMS = {
  YAML_SYNTAX: { severity: 'error', meaning: 'The file is not YAML.' },
  YAML_DUPLICATE_KEY: { severity: 'error', meaning: 'A mapping has the same key twice.' },
  YAML_ALIAS_BOMB: { severity: 'error', meaning: 'Written out, the aliases give far more than the file holds.' },
  YAML_AMBIGUOUS: { severity: 'error', meaning: 'A bare word or number that YAML versions read in different ways.' },
  YAML_KEY: { severity: 'error', meaning: 'A key that is no text.' },
  YAML_UNSUPPORTED: { severity: 'error', meaning: 'Tags, several documents or characters that a plan cannot hold.' },
  TOO_LARGE: { severity: 'error', meaning: 'The playbook exceeds a limit of the compiler.' },
  PRE_V10: { severity: 'error', meaning: 'A spelling of the language before v10.' },
  INVALID_STEP_SCHEMA: {
    severity: 'error',
    meaning: 'A field that does not exist, is missing, or has the wrong type.',
  },
  CONFLICT: { severity: 'error', meaning: 'Two spellings of the same thing say different things.' },
  DUPLICATE_NAME: { severity: 'error', meaning: 'Two steps, tasks or entries have the same name.' },
  RESERVED_NAME: { severity: 'error', meaning: 'The name means something else, or holds a reserved character.' },
  UNKNOWN_TOOL: { severity: 'error', meaning: 'There is no tool of this kind.' },
  ARC_TO_NOWHERE: { severity: 'error', meaning: 'An arc, entry or final step names a step that does not exist.' },
  JUMP_TO_NOWHERE: { severity: 'error', meaning: 'A jump names a task that is not in the pipeline.' },
  WORKBOOK_TASK_NOT_FOUND: { severity: 'error', meaning: 'The workbook has no such task.' },
  UNREACHABLE_RULE: { severity: 'error', meaning: 'A rule behind one that always matches.' },
  LOOP_WITHOUT_LIST: { severity: 'error', meaning: 'A loop that has nothing to run over.' },
  TEMPLATE_SYNTAX: { severity: 'error', meaning: 'A template that does not parse.' },
  UNKNOWN_ROOT_NAME: {
    severity: 'error',
    meaning: 'A template starts from a name that does not exist where it stands.',
  },
  KEYCHAIN_OUT_OF_PLACE: { severity: 'error', meaning: 'Credentials exist in the fields of a tool only.' },
  SECRET_IN_PLAN: { severity: 'error', meaning: 'A secret value; a plan holds references only.' },
  CHILD_NOT_FOUND: { severity: 'error', meaning: 'The sub-playbook, or its return step, does not exist.' },
  CHILD_CYCLE: { severity: 'error', meaning: 'A sub-playbook leads back to itself.' },
  UNREACHABLE_STEP: { severity: 'warning', meaning: 'No arc leads to the step, so it never runs.' },
  ENDLESS_CYCLE: { severity: 'warning', meaning: 'Steps lead back to each other on no condition, and nowhere else.' },
  SHADOWED_NAME: { severity: 'warning', meaning: 'Two things that templates see have one name.' },
  IGNORED_FIELD: { severity: 'warning', meaning: 'A field of the language that has no effect here.' },
  TEMPLATE_NOT_RENDERED: { severity: 'warning', meaning: 'A template where none is rendered.' },
  TOOL_UNAVAILABLE: { severity: 'warning', meaning: 'A known tool that is not built in.' },
} as const satisfies Record<string, { severity: 'error' | 'warning'; meaning: string }>;

export type ProblemCode = keyof typeof PROBLEMS;

export interface Problem {
  readonly code: ProblemCode;
  readonly severity: 'error' | 'warning';
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** What is wrong, and what to write instead. */
  readonly message: string;
  /** Where in the playbook, in its own words: `workflow[2].next.arcs[0].step`. */
  readonly path: string;
  /** The offending line with a caret under the place. */
  readonly excerpt: string;
}

interface Finding {
  readonly code: ProblemCode;
  readonly offset: number;
  readonly message: string;
  readonly path: string;
}

/** Collects what is wrong with one file. Excerpts are made last, when every secret of the file is known. */
export class ProblemList {
  readonly #source: SourceFile;
  readonly #limit: number;
  readonly #findings: Finding[] = [];
  readonly #seen = new Set<string>();
  readonly #secrets: [from: number, to: number][] = [];
  #dropped = 0;
  #errors = 0;

  constructor(source: SourceFile, limit: number) {
    this.#source = source;
    this.#limit = limit;
  }

  add(code: ProblemCode, offset: number, path: string, message: string): void {
    // An alias shows the same mistake at the same place as often as it is used.
    const key = `${offset} ${code} ${message}`;
    if (this.#seen.has(key)) return;
    if (PROBLEMS[code].severity === 'error') this.#errors++;
    if (this.#findings.length >= this.#limit) {
      this.#dropped++;
      return;
    }
    this.#seen.add(key);
    this.#findings.push({ code, offset, message, path });
  }

  /** The text between these offsets is never shown. */
  hide(from: number, to: number): void {
    this.#secrets.push([from, to]);
  }

  get failed(): boolean {
    return this.#errors > 0;
  }

  has(...codes: ProblemCode[]): boolean {
    return this.#findings.some((finding) => codes.includes(finding.code));
  }

  /** More problems would not be shown; whoever looks for suggestions can stop. */
  get full(): boolean {
    return this.#findings.length >= this.#limit;
  }

  list(): Problem[] {
    const sorted = this.#findings.slice().sort((a, b) => a.offset - b.offset || compare(a.code, b.code));
    const problems = sorted.map(({ code, offset, message, path }): Problem => {
      const { line, column } = this.#source.position(offset);
      const excerpt = this.#source.excerpt(offset, this.#secrets);
      const { severity } = PROBLEMS[code];
      return {
        code,
        severity,
        file: this.#source.file,
        line,
        column,
        message: printable(message),
        path: printable(path),
        excerpt,
      };
    });
    if (this.#dropped > 0) {
      const message = `${this.#dropped} more problems of this file are not shown; correct these first`;
      problems.push({
        code: 'TOO_LARGE',
        severity: 'error',
        file: this.#source.file,
        line: 1,
        column: 1,
        message,
        path: '',
        excerpt: '',
      });
    }
    return problems;
  }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const RED = '\u001b[31m';
const YELLOW = '\u001b[33m';
const DIM = '\u001b[2m';
const OFF = '\u001b[0m';

/** Problems as people read them: `file:line:column CODE message`, with `warning` before the code of one, then the line itself. */
export function formatProblems(problems: readonly Problem[], options: { color?: boolean } = {}): string {
  const paint = (color: string, text: string): string => (options.color ? `${color}${text}${OFF}` : text);
  const blocks = problems.map((problem) => {
    const isError = problem.severity === 'error';
    const label = paint(isError ? RED : YELLOW, `${isError ? '' : 'warning '}${problem.code}`);
    const head = `${problem.file}:${problem.line}:${problem.column} ${label} ${problem.message}`;
    return problem.excerpt === '' ? head : `${head}\n${paint(DIM, problem.excerpt)}`;
  });
  return blocks.join('\n\n');
}
