import type { LedgerRecord } from '../../contracts/envelope.ts';
import { AppError } from '../../contracts/errors.ts';
import { PLAN_SCHEMA_VERSION, type Plan } from '../../contracts/plan.ts';
import type { EngineName, PlanRef } from '../../contracts/values.ts';
import type { RunIdentity } from '../../store/sql/read-events.ts';
import type { Store } from '../../store/store.ts';
import { RunView } from '../../worker/run-view.ts';
import { checkCapabilities } from '../check-capabilities.ts';
import type { PlanSource } from '../plan-ref.ts';

/** The plan of a run cannot be read, and reading it again will not help: nobody can go on with the run. */
export class PlanUnreadable extends AppError {}

/** Stands for a plan that cannot be read. What the log holds can be told with it, and a run can be ended; nothing can go on. */
const NO_PLAN: Plan = Object.freeze({
  schemaVersion: PLAN_SCHEMA_VERSION,
  metadata: { planId: 'unreadable', planVersion: '0', name: 'unreadable' },
  entryStep: 'unreadable',
  workload: {},
  keychain: [],
  workbook: {},
  children: [],
  steps: [],
});

const PAGE = 1000;
/** Runs that a process remembers the state of. Forgetting one costs reading its log again. */
const MAX_VIEWS = 2000;

/** The runs that this process works on, as far as it knows them. */
export class RunViews {
  readonly #store: Store;
  readonly #plans: PlanSource;
  readonly #views = new Map<string, RunView>();
  readonly #loading = new Map<string, Promise<RunView>>();

  constructor(store: Store, plans: PlanSource) {
    this.#store = store;
    this.#plans = plans;
  }

  /** The view of a run, read from the log where it is not known yet. */
  async get(runId: string): Promise<RunView> {
    const known = this.#views.get(runId);
    if (known) return known;
    let loading = this.#loading.get(runId);
    if (!loading) {
      loading = this.#load(runId).finally(() => this.#loading.delete(runId));
      this.#loading.set(runId, loading);
    }
    return loading;
  }

  put(view: RunView): void {
    if (this.#views.size >= MAX_VIEWS) this.#views.delete(this.#views.keys().next().value as string);
    this.#views.set(view.run.runId, view);
  }

  forget(runId: string): void {
    this.#views.delete(runId);
  }

  /** The same without its plan. It is not kept. */
  async withoutPlan(runId: string): Promise<RunView> {
    const view = new RunView(await this.#identityOf(runId), NO_PLAN);
    await this.refresh(view);
    return view;
  }

  /** Reads what others have appended. */
  async refresh(view: RunView): Promise<void> {
    for (;;) {
      const page = await this.#store.readEvents(view.run.runId, { afterSeq: view.state.lastEventSeq, limit: PAGE });
      view.take(page);
      if (page.length < PAGE) return;
    }
  }

  async #load(runId: string): Promise<RunView> {
    const [run, page] = await Promise.all([this.#identityOf(runId), this.#store.readEvents(runId, { limit: PAGE })]);
    const view = new RunView(run, await this.#planOf(run, page));
    view.take(page);
    if (page.length === PAGE) await this.refresh(view);
    this.put(view);
    return view;
  }

  async #identityOf(runId: string): Promise<RunIdentity & { readonly engine: EngineName }> {
    const run = await this.#store.findRun(runId);
    if (!run) throw new AppError('RUN_NOT_FOUND', `There is no run ${runId}`, { runId });
    const { runKey, tenantId, projectId, environmentId, planId, planVersion, engine } = run;
    return { runKey, runId, tenantId, projectId, environmentId, planId, planVersion, engine };
  }

  /** Everything is checked again that was checked when the run was started: who started it may have been somebody else. */
  async #planOf(run: RunIdentity & { engine: EngineName }, records: readonly LedgerRecord[]): Promise<Plan> {
    const { runId } = run;
    const ref = records.find((record) => record.payload?.['planRef'])?.payload?.['planRef'] as PlanRef | undefined;
    try {
      if (!ref) throw new AppError('PLAN_NOT_FOUND', `The log of run ${runId} names no plan.`, { runId });
      const { plan } = await this.#plans.fetch(ref);
      checkCapabilities(plan, run.engine);
      return plan;
    } catch (thrown) {
      if (!(thrown instanceof AppError) || thrown.retryable) throw thrown;
      throw new PlanUnreadable(thrown.code, thrown.message, { ...thrown.details, runId });
    }
  }
}
