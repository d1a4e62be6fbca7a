import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { CompiledPlan } from '../compiler/compile.ts';
import { parsePlan } from '../compiler/parse-plan.ts';
import { formatProblems } from '../compiler/problems.ts';
import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import { isTerminal } from '../contracts/states.ts';
import type { PlanRef } from '../contracts/values.ts';
import type { Engine } from '../engines/engine.ts';
import type { PlanSource } from '../engines/plan-ref.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { RunRow } from '../store/sql/find-run.ts';
import { checkList } from './check-list.ts';
import { checkStart } from './check-start.ts';
import { loadSettings, type Settings } from './config.ts';
import type { ListOptions, Playbook, RunSummary, Runtime, RuntimeOptions, StartRunOptions } from './create-runtime.ts';
import type { EngineRuntime } from './engine-parts.ts';
import { type Ledger, openLedger } from './open-ledger.ts';
import { artifactsOf, openRuntime } from './open-runtime.ts';
import { compileFile, compileText } from './playbook-files.ts';
import { type Run, RunHandle, type RunPorts } from './run-handle.ts';

/** What `createRuntime` gives. */
export async function openProgramRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { configFile, work = true, migrate = false, onLog, onWarning, ...given } = options;
  const settings = await loadSettings({ configFile: configFile ?? false, given });
  const ledger = await openLedger(settings, { warn: onWarning, migrate });
  try {
    const runtime = await openRuntime(settings, ledger.store, {
      work,
      ...(onLog ? { log: onLog } : {}),
      onError: (error, unit) => onWarning?.(`${unit}: ${(error as Error).message}`),
    });
    return new ProgramRuntime(settings, ledger, runtime);
  } catch (error) {
    await ledger.close();
    throw error;
  }
}

class ProgramRuntime implements Runtime {
  readonly store: PostgresStore;
  readonly engine: Engine;
  readonly plans: PlanSource;
  readonly #settings: Settings;
  readonly #ledger: Ledger;
  readonly #runtime: EngineRuntime;
  readonly #ports: RunPorts;
  readonly #closed = new AbortController();
  #closing: Promise<void> | undefined;

  constructor(settings: Settings, ledger: Ledger, runtime: EngineRuntime) {
    this.store = ledger.store;
    this.engine = runtime.engine;
    this.plans = runtime.plans;
    this.#settings = settings;
    this.#ledger = ledger;
    this.#runtime = runtime;
    // Everybody who waits for a run listens to it, and that may be thousands.
    setMaxListeners(0, this.#closed.signal);
    this.#ports = { store: ledger.store, artifacts: artifactsOf(settings), runtime, closed: this.#closed.signal };
  }

  async start(playbook: Playbook, options: StartRunOptions = {}): Promise<Run> {
    this.#checkOpen();
    checkStart(playbook, options);
    const { input, runId = randomUUID(), requestId, by, trigger } = options;
    const planRef = await this.#keep(playbook);
    const ref = await this.#runtime.engine.startRun(
      planRef,
      { ...this.#settings.scope, runId, targetAdapter: this.#runtime.engine.name },
      {
        trigger: trigger ?? { type: 'api' },
        ...(by === undefined ? {} : { triggeredBy: by }),
        ...(input === undefined ? {} : { workload: { ...input } }),
        ...(requestId === undefined ? {} : { runRequestId: requestId }),
      },
    );
    return new RunHandle(this.#ports, ref.runId);
  }

  async run(playbook: Playbook, options?: StartRunOptions): Promise<unknown> {
    return (await this.start(playbook, options)).result();
  }

  async get(runId: string): Promise<Run> {
    await this.#find(runId);
    return new RunHandle(this.#ports, runId);
  }

  async retry(runId: string, options: { readonly from?: string } = {}): Promise<Run> {
    if (options.from !== undefined && typeof options.from !== 'string')
      throw new AppError('USAGE', '`from` is the name of a step.', { runId });
    const { status } = await this.#find(runId);
    if (status === undefined || !isTerminal(status))
      throw new AppError('SIGNAL_REJECTED', `Run ${runId} has not ended; resume it instead.`, { runId });
    const { engine } = this.#runtime;
    const ref = await engine.retryRun(engine.refOf({ runId }), options);
    return new RunHandle(this.#ports, ref.runId);
  }

  async list(options: ListOptions = {}): Promise<{ runs: RunSummary[]; next?: string }> {
    this.#checkOpen();
    checkList(options);
    const { statuses, planId, children = false, limit = 20, before } = options;
    const found = await this.store.listRuns({
      ...(statuses === undefined ? {} : { statuses }),
      planId,
      topLevel: !children,
      ...(before === undefined ? {} : { beforeKey: Number(before) }),
      limit: limit + 1,
    });
    const page = found.slice(0, limit);
    const runs = page.map(({ runKey: _key, decidedSeq: _decided, ...run }) => run);
    return { runs, ...(found.length > limit ? { next: String(page.at(-1)!.runKey) } : {}) };
  }

  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(options.drainMs);
    return this.#closing;
  }

  async #close(drainMs: number | undefined): Promise<void> {
    this.#closed.abort();
    try {
      await this.#runtime.close(drainMs);
    } finally {
      await this.#ledger.close();
    }
  }

  async #keep(playbook: Playbook): Promise<PlanRef> {
    const { plans } = this.#runtime;
    if (typeof playbook === 'object' && playbook.plan !== undefined) {
      for (const child of playbook.children ?? []) await plans.keep(checkedPlan(child));
      return plans.keep(checkedPlan(playbook.plan));
    }
    const compiled = await this.#compile(playbook);
    for (const child of compiled.children.values()) await plans.keep(child);
    return plans.keep(compiled);
  }

  async #compile(
    playbook: Exclude<Playbook, { plan: Plan }>,
  ): Promise<CompiledPlan & { readonly children: ReadonlyMap<string, CompiledPlan> }> {
    const source = typeof playbook === 'string' ? { file: playbook } : playbook;
    const compiled =
      source.text === undefined
        ? await compileFile(source.file, this.#settings)
        : await compileText({ text: source.text, file: source.name ?? 'playbook.yaml' }, this.#settings);
    if (compiled.ok) return compiled;
    const { problems } = compiled;
    throw new AppError('PLAYBOOK_INVALID', `The playbook has problems:\n${formatProblems(problems)}`, { problems });
  }

  async #find(runId: string): Promise<RunRow> {
    this.#checkOpen();
    const run = await this.store.findRun(runId);
    if (!run) throw new AppError('RUN_NOT_FOUND', `There is no run ${runId}`, { runId });
    return run;
  }

  #checkOpen(): void {
    if (this.#closing) throw new AppError('USAGE', 'The runtime is closed.');
  }
}

/** A plan comes from outside as much as a playbook does: it is checked and hashed before it is kept. */
function checkedPlan(plan: Plan): { json: string; sha256: string; planRef: PlanRef } {
  const json = canonicalJson(plan);
  const { plan: checked, sha256 } = parsePlan(json);
  const { planId, planVersion } = checked.metadata;
  return {
    json,
    sha256,
    planRef: {
      uri: `runledger-plan:sha256/${sha256}`,
      sha256,
      schemaVersion: checked.schemaVersion,
      planId,
      planVersion,
    },
  };
}
