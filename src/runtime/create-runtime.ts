import type { Plan } from '../contracts/plan.ts';
import type { RunStatus } from '../contracts/states.ts';
import type { Engine } from '../engines/engine.ts';
import type { PlanSource } from '../engines/plan-ref.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { RunRow } from '../store/sql/find-run.ts';
import type { LogLine } from '../worker/ports.ts';
import type { RunledgerConfig } from './config.ts';
import type { Run } from './run-handle.ts';

/**
 * Every setting of `runledger.config.ts`, and what only a program can say. What stands here wins over the environment
 * (`DATABASE_URL`, `RUNLEDGER_...`), and that over `configFile`.
 */
export interface RuntimeOptions extends RunledgerConfig {
  /** A `runledger.config.*` to read as well; without it no file is looked for. */
  readonly configFile?: string;
  /** False: runs are started, signalled and read here, and workers in other processes do the work. */
  readonly work?: boolean;
  /** Whether a database of your own is brought up to date on opening; otherwise that is for `runledger migrate`. */
  readonly migrate?: boolean;
  /** Told every line that a task prints. */
  readonly onLog?: (line: LogLine) => void;
  /** Told what a person should know, such as a database that had to be waited for. */
  readonly onWarning?: (message: string) => void;
}

/** A playbook: the name of its file, its text, or a plan that was compiled before, with those of its sub-playbooks. */
export type Playbook =
  | string
  | { readonly file: string; readonly text?: never; readonly plan?: never }
  | { readonly text: string; readonly name?: string; readonly file?: never; readonly plan?: never }
  | { readonly plan: Plan; readonly children?: readonly Plan[]; readonly file?: never; readonly text?: never };

export interface StartRunOptions {
  /** Values laid over the playbook's `workload`. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** An id of your own for the run; RUN_EXISTS where another run has it. */
  readonly runId?: string;
  /** Your own key of the request: the same key twice gives the same run. */
  readonly requestId?: string;
  /** Who asks, for the log. */
  readonly by?: string;
  /** What set the run off; `ref` makes it unique per playbook. */
  readonly trigger?: { readonly type: 'manual' | 'schedule' | 'webhook' | 'api'; readonly ref?: string };
}

export interface ListOptions {
  readonly statuses?: readonly RunStatus[];
  readonly planId?: string;
  /** Also runs that other runs started. */
  readonly children?: boolean;
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly before?: string;
}

/** A run as a list shows it. */
export type RunSummary = Omit<RunRow, 'runKey' | 'decidedSeq'>;

/** Runledger in a program. Any number of processes, and the command line, may use one database at once. */
export interface Runtime {
  /** Compiles a playbook and starts it. Throws PLAYBOOK_INVALID with `details.problems`; then nothing was started. */
  start(playbook: Playbook, options?: StartRunOptions): Promise<Run>;
  /** Starts a playbook and waits for its result; see `Run.result`. */
  run(playbook: Playbook, options?: StartRunOptions): Promise<unknown>;
  /** The run of that id; throws RUN_NOT_FOUND. */
  get(runId: string): Promise<Run>;
  /** Runs an ended run again as a new one that keeps what was completed before `from`, or before what failed. */
  retry(runId: string, options?: { readonly from?: string }): Promise<Run>;
  /** Runs, newest first. */
  list(options?: ListOptions): Promise<{ readonly runs: readonly RunSummary[]; readonly next?: string }>;
  /** The parts, for everything that the runtime has no word for: the log, the engine, and where plans are kept. */
  readonly store: PostgresStore;
  readonly engine: Engine;
  readonly plans: Pick<PlanSource, 'keep'>;
  /**
   * Lets steps in flight finish for as long as `drainMs` says (5 s), hands back the rest, and lets go of everything.
   * Whoever opens the same database next takes up what is open.
   */
  close(options?: { readonly drainMs?: number }): Promise<void>;
}

/** Opens the database that the options name, or the embedded one, and works on its runs until it is closed. */
export async function createRuntime(options: RuntimeOptions = {}): Promise<Runtime> {
  // Loaded here, because `runledger.config.ts` imports this module only for `defineTool` and `defineConfig`.
  const { openProgramRuntime } = await import('./program-runtime.ts');
  return openProgramRuntime(options);
}
