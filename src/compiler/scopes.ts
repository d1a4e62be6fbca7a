/** What templates see, by where they stand; the table of spec and kernel in one place. */
const ALWAYS = ['workload', 'ctx', 'args', 'execution_id', 'job'] as const;
const IN_PIPELINE = ['iter', '_prev', '_task', '_attempt'] as const;
const OUTCOME = ['outcome', 'output'] as const;

const SITUATIONS = {
  /** Fields of a tool, rendered by the worker just before the call. */
  tool: { names: [...IN_PIPELINE, 'keychain'], pipeline: true, what: 'a tool field' },
  /** Settings of a task that are recorded: time-out, effect, assignments before the call. */
  task: { names: [...IN_PIPELINE], pipeline: true, what: 'a task' },
  /** Rules and assignments after the call. */
  policy: { names: [...IN_PIPELINE, ...OUTCOME], pipeline: true, what: 'a task policy' },
  /** Assignments of a step whose pipeline has just ended. */
  stepSet: { names: [...OUTCOME, 'event', 'iter', '_prev'], pipeline: true, what: "a step's set" },
  /** The same after a loop: the iterations and their names are gone. */
  loopSet: { names: [...OUTCOME, 'event'], pipeline: false, what: "a loop's set" },
  arc: { names: [...OUTCOME, 'event'], pipeline: false, what: 'an arc' },
  admit: { names: ['event'], pipeline: false, what: 'an admission rule' },
  loop: { names: [], pipeline: false, what: 'a loop' },
  /** The claim of a cursor loop, made by each iteration for itself. */
  cursor: { names: ['iter'], pipeline: false, what: 'a cursor' },
  /** Settings of a step that are read before it runs. */
  step: { names: [], pipeline: false, what: 'a step' },
  input: { names: ['iter'], pipeline: false, what: "a step's input" },
  keychain: { names: ['keychain'], pipeline: false, what: 'the keychain' },
} as const satisfies Record<string, { names: readonly string[]; pipeline: boolean; what: string }>;

export type Situation = keyof typeof SITUATIONS;

/** Words that templates give a meaning; nothing else may have these names. */
export const RESERVED_WORDS: ReadonlySet<string> = new Set([
  ...ALWAYS,
  ...IN_PIPELINE,
  ...OUTCOME,
  'event',
  'keychain',
]);

/** The names of one pipeline: its tasks, what they assign, and the loop's item. */
export interface PipelineNames {
  readonly tasks: Iterable<string>;
  readonly locals: Iterable<string>;
  readonly iterator?: string | undefined;
}

/** The names of the whole playbook. */
export class PlaybookScope {
  readonly #shared: ReadonlySet<string>;

  constructor(names: { steps: Iterable<string>; workload: Iterable<string>; inert: Iterable<string> }) {
    this.#shared = new Set([...ALWAYS, ...names.steps, ...names.workload, ...names.inert]);
  }

  at(situation: Situation, pipeline?: PipelineNames): Scope {
    const row = SITUATIONS[situation];
    const own = new Set<string>(row.names);
    if (pipeline) {
      if (pipeline.iterator !== undefined && (row.pipeline || situation === 'input')) own.add(pipeline.iterator);
      if (row.pipeline) {
        for (const name of pipeline.tasks) own.add(name);
        for (const name of pipeline.locals) own.add(name);
      }
    }
    return {
      what: row.what,
      has: (name) => own.has(name) || this.#shared.has(name),
      names: () => [...own, ...this.#shared],
    };
  }
}

export interface Scope {
  /** The place, in words. */
  readonly what: string;
  has(name: string): boolean;
  names(): string[];
}
