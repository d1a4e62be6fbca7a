import { randomUUID } from 'node:crypto';
import type { Plan } from '../contracts/plan.ts';
import { isTerminal } from '../contracts/states.ts';
import type { EngineRunRef } from '../contracts/values.ts';
import type { EngineRuntime } from '../runtime/engine-parts.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { Context } from './context.ts';
import { expectedSteps } from './expected-steps.ts';
import { listenForKeys } from './keys.ts';
import { nextCommand } from './next-command.ts';
import { openWriteLines, openWrites, waitsForPerson } from './open-writes.ts';
import { type Progress, progressFor } from './progress.ts';
import { type Locate, RunTree } from './run-tree.ts';
import { endExit, printEnd } from './summary.ts';
import type { TaskLog } from './task-log.ts';
import { catchUp, hasEnded, watchRun } from './watch-run.ts';

const SETTLE_MS = 50;
const LOOK_MS = 200;
/** The run waits for a person: there is nothing to do here, and nothing has failed. */
const WAITS_EXIT = 75;

/** Shows a run until it has ended, and takes care of Ctrl-C. Gives the exit code. */
export async function driveRun(
  context: Context,
  runtime: EngineRuntime,
  runId: string,
  options: {
    readonly skipPast?: boolean;
    readonly pastPauses?: boolean;
    readonly logs?: TaskLog;
    readonly locate?: Locate;
  } = {},
): Promise<number> {
  const { terminal, session } = context;
  const store = await session.store();
  const tree = new RunTree(runId, options.locate);
  if (options.skipPast) await catchUp(store, tree);
  const { logs } = options;
  let interrupts: Interrupts | undefined;
  const progress = progressFor(tree, terminal, {
    total: totalSteps(runtime, tree),
    hint: () => {
      if (interrupts?.isPausing) return 'pausing, Ctrl-C leaves at once';
      return logs ? `l ${logs.isShown() ? 'hides' : 'shows'} what tasks print, Ctrl-C pauses` : 'Ctrl-C pauses';
    },
  });
  logs?.connect(progress);
  if (!terminal.json) session.trouble = (line) => progress.say(line);
  const stop = new AbortController();
  interrupts = new Interrupts(context, runtime, runId, progress, stop);
  const letKeysGo = logs && terminal.hints.live && !terminal.json ? listenForKeys({ l: logs.toggle }) : undefined;
  const rest = leaveAtRest(store, tree, stop);
  const pause = options.pastPauses ? undefined : leaveWhenPaused(runtime, tree, interrupts);
  try {
    await watchRun({ store, progress: () => progress, signal: stop.signal }, tree);
  } finally {
    rest.end();
    pause?.end();
    interrupts.end();
    letKeysGo?.();
    progress.end();
  }
  if (interrupts.left !== undefined && !hasEnded(tree)) return interrupts.leave(tree);
  if (rest.isReached() && !hasEnded(tree)) return tellOpenWrites(context, tree);
  await printEnd(context, tree);
  return endExit(tree);
}

/** Ends the watch when nothing goes on before a person has settled a write. */
function leaveAtRest(store: PostgresStore, tree: RunTree, stop: AbortController) {
  let isReached = false;
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking || stop.signal.aborted || openWrites(tree).length === 0) return;
    isLooking = true;
    try {
      // The database may be away for a moment: whoever follows the run says so.
      if (!(await waitsForPerson(store, tree).catch(() => false)) || stop.signal.aborted) return;
      isReached = true;
      stop.abort();
    } finally {
      isLooking = false;
    }
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  return { isReached: () => isReached, end: () => clearInterval(timer) };
}

/** Ends the watch when somebody else has paused the run: who waits for it, a script above all, would wait for ever. */
function leaveWhenPaused({ engine }: EngineRuntime, tree: RunTree, interrupts: Interrupts) {
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking || interrupts.isPausing || tree.status !== 'PAUSED') return;
    isLooking = true;
    try {
      const { status, substatus } = await engine.getRunStatus(engine.refOf({ runId: tree.runId }));
      if (status === 'PAUSED' && substatus !== 'DRAINING') interrupts.pausedElsewhere();
    } catch {
      // The database may be away for a moment: whoever follows the run says so.
    } finally {
      isLooking = false;
    }
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  return { end: () => clearInterval(timer) };
}

function tellOpenWrites({ args, terminal }: Context, tree: RunTree): number {
  const { runId, status } = tree;
  if (terminal.json) terminal.printJson({ runId, status, openWrites: openWrites(tree) });
  else {
    terminal.print('');
    terminal.print(`run:    ${runId}`);
    for (const line of openWriteLines(args, tree)) terminal.print(line);
  }
  return WAITS_EXIT;
}

/** How many steps the run will have; its plan is fetched when the log has named it. */
function totalSteps(runtime: EngineRuntime, tree: RunTree): () => number | undefined {
  let plan: Plan | undefined;
  let isAsked = false;
  let known: { readonly seq: number; readonly total: number | undefined } | undefined;
  return () => {
    if (tree.planRef && !isAsked) {
      isAsked = true;
      runtime.plans.fetch(tree.planRef).then(
        (found) => {
          plan = found.plan;
        },
        // The engine says what is wrong with a plan; the display goes on without a total.
        () => {},
      );
    }
    if (!plan) return undefined;
    if (known?.seq !== tree.lastSeq) known = { seq: tree.lastSeq, total: expectedSteps(plan, tree) };
    return known.total;
  };
}

/** Once: pause and drain. Twice, or asked to terminate: hand back what is in flight and leave. Nothing is lost. */
class Interrupts {
  readonly #context: Context;
  readonly #runtime: EngineRuntime;
  readonly #ref: EngineRunRef;
  readonly #progress: Progress;
  readonly #stop: AbortController;
  readonly #onInterrupt = (): void => this.#interrupted();
  readonly #onTerminate = (): void => this.#leaveNow(143);
  left: { readonly exit: number; readonly paused: boolean } | undefined;
  #count = 0;

  constructor(context: Context, runtime: EngineRuntime, runId: string, progress: Progress, stop: AbortController) {
    this.#context = context;
    this.#runtime = runtime;
    this.#ref = runtime.engine.refOf({ runId });
    this.#progress = progress;
    this.#stop = stop;
    process.on('SIGINT', this.#onInterrupt);
    process.on('SIGTERM', this.#onTerminate);
  }

  end(): void {
    process.off('SIGINT', this.#onInterrupt);
    process.off('SIGTERM', this.#onTerminate);
  }

  get isPausing(): boolean {
    return this.#count > 0;
  }

  #interrupted(): void {
    this.#count++;
    if (this.#count > 1) {
      this.#leaveNow(130);
      return;
    }
    this.#say('Pausing: steps in flight may finish. Ctrl-C again leaves at once.');
    this.#pause().catch((error: unknown) => {
      this.#say(`The run could not be paused: ${(error as Error).message}`);
      this.#leaveNow(130);
    });
  }

  #leaveNow(exit: number): void {
    this.left ??= { exit, paused: false };
    this.#stop.abort();
  }

  pausedElsewhere(): void {
    if (this.#stop.signal.aborted) return;
    this.#say('The run was paused from elsewhere.');
    this.left ??= { exit: WAITS_EXIT, paused: true };
    this.#stop.abort();
  }

  async #pause(): Promise<void> {
    const { engine } = this.#runtime;
    const { accepted } = await engine.signal(this.#ref, { signalId: randomUUID(), type: 'PAUSE', by: 'cli' });
    // It has just ended, or was paused before.
    while (!this.#stop.signal.aborted && (accepted || this.#count === 1)) {
      const { status, substatus } = await engine.getRunStatus(this.#ref);
      if (isTerminal(status)) return;
      if (status === 'PAUSED' && substatus !== 'DRAINING' && (await this.#childrenAtRest(this.#ref.runId))) break;
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    }
    this.left ??= { exit: 130, paused: true };
    this.#stop.abort();
  }

  async #childrenAtRest(runId: string): Promise<boolean> {
    const store = await this.#context.session.store();
    for (const childId of await store.work.openChildren(runId)) {
      const { engine } = this.#runtime;
      const { status, substatus } = await engine.getRunStatus(engine.refOf({ runId: childId }));
      if (status !== 'PAUSED' || substatus === 'DRAINING' || !(await this.#childrenAtRest(childId))) return false;
    }
    return true;
  }

  /** Lets go of everything and says how to go on. */
  async leave(tree: RunTree): Promise<number> {
    const { args, terminal, session } = this.#context;
    const { exit, paused } = this.left!;
    const short = tree.runId.slice(0, 8);
    if (terminal.json)
      terminal.printJson({
        runId: tree.runId,
        status: paused ? 'PAUSED' : (tree.status ?? 'RUNNING'),
        interrupted: true,
      });
    else {
      const said = paused
        ? `Paused run ${tree.runId}; nothing is lost.`
        : `Left run ${tree.runId}; what was in flight is handed back, nothing is lost.`;
      for (const line of terminal.wrap(said)) terminal.print(line);
      terminal.print(`next: ${nextCommand(args, `resume ${short}`)}`);
    }
    await session.close(paused ? undefined : 0);
    return exit;
  }

  #say(line: string): void {
    if (this.#context.terminal.json) this.#context.terminal.note(line);
    else this.#progress.say(line);
  }
}
