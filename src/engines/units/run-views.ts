import type { LedgerRecord } from '../../contracts/envelope.ts';
import { AppError } from '../../contracts/errors.ts';
import type { Plan } from '../../contracts/plan.ts';
import type { PlanRef } from '../../contracts/values.ts';
import type { Store } from '../../store/store.ts';
import { RunView } from '../../worker/run-view.ts';
import type { PlanSource } from '../plan-ref.ts';

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

  /** Reads what others have appended. */
  async refresh(view: RunView): Promise<void> {
    for (;;) {
      const page = await this.#store.readEvents(view.run.runId, { afterSeq: view.state.lastEventSeq, limit: PAGE });
      view.take(page);
      if (page.length < PAGE) return;
    }
  }

  async #load(runId: string): Promise<RunView> {
    const run = await this.#store.findRun(runId);
    if (!run) throw new AppError('RUN_NOT_FOUND', `There is no run ${runId}`, { runId });
    const page = await this.#store.readEvents(runId, { limit: PAGE });
    const { runKey, tenantId, projectId, environmentId, planId, planVersion } = run;
    const identity = { runKey, runId, tenantId, projectId, environmentId, planId, planVersion };
    const view = new RunView(identity, await this.#planOf(runId, page));
    view.take(page);
    if (page.length === PAGE) await this.refresh(view);
    this.put(view);
    return view;
  }

  async #planOf(runId: string, records: readonly LedgerRecord[]): Promise<Plan> {
    const ref = records.find((record) => record.payload?.['planRef'])?.payload?.['planRef'] as PlanRef | undefined;
    if (!ref) throw new AppError('PLAN_NOT_FOUND', `The log of run ${runId} names no plan.`, { runId });
    return (await this.#plans.fetch(ref)).plan;
  }
}
