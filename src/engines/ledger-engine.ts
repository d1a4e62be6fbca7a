import { randomUUID } from 'node:crypto';
import { Compile } from 'typebox/compile';
import { CAPABILITY_MATRIX, type CapabilityRow } from '../compiler/capability-matrix.ts';
import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import type { RunStatusSnapshot } from '../contracts/snapshot.ts';
import { isTerminal } from '../contracts/states.ts';
import { type EngineName, EngineRunRef, type PlanRef, RunContext, type StoredValue } from '../contracts/values.ts';
import type { Command, EventDraft } from '../kernel/commands.ts';
import { decide, eventsOf } from '../kernel/decide.ts';
import type { RunState, WaitState } from '../kernel/state.ts';
import { statusMessage, substatus } from '../kernel/status-words.ts';
import type { RunRow } from '../store/sql/find-run.ts';
import type { RunIdentity } from '../store/sql/read-events.ts';
import { stampEvent } from '../store/stamp-event.ts';
import type { Store } from '../store/store.ts';
import type { Lease, NewWork } from '../store/work.ts';
import { firstChildRunId } from '../worker/child-call.ts';
import { expectStored, RunView } from '../worker/run-view.ts';
import { storeResult } from '../worker/store-result.ts';
import { checkCapabilities } from './check-capabilities.ts';
import type { Caller, Engine, SettleRequest, SignalAnswer, SignalRequest, StartOptions } from './engine.ts';
import { listSteps, type StepRow } from './list-steps.ts';
import type { PlanSource } from './plan-ref.ts';
import { commitDecision, type DecisionPorts } from './units/commit-decision.ts';
import { repairRun } from './units/repair-run.ts';
import { retryCommand } from './units/retry-command.ts';
import { PlanUnreadable, type RunViews } from './units/run-views.ts';
import { settleWrite } from './units/settle-write.ts';
import { workChanges } from './units/work-changes.ts';

export interface LedgerEnginePorts extends DecisionPorts {
  readonly store: Store;
  readonly plans: PlanSource;
  readonly views: RunViews;
}

/** A run that has just been stored. */
export interface PlacedRun {
  readonly run: RunIdentity;
  readonly ref: EngineRunRef;
  /** Its first units, and the leases of those that were asked for. */
  readonly units: readonly NewWork[];
  readonly leases: readonly Lease[];
}

/** What engines differ in: who schedules. Everything that is decided and stored is the same on all of them. */
export interface Placement {
  readonly engine: EngineName;
  /** Where a run lives inside the engine. */
  ref(run: { readonly runId: string; readonly tenantId?: string }): EngineRunRef;
  /** A worker of this process that takes the first units at once. */
  taker(): { readonly owner: string; readonly room: number } | undefined;
  /** Throws where nothing could be scheduled: then no run is made. */
  prepare(): Promise<void>;
  /** The run is stored: whoever schedules takes it up. */
  placed(run: PlacedRun): Promise<void>;
  /** Something was decided outside of the run's own work: whoever schedules looks at what there is to do now. */
  changed(run: RunRow): Promise<void>;
  /** A substatus that only the engine knows. */
  word(run: RunRow): Promise<string | undefined>;
}

const refCheck = Compile(EngineRunRef);
const contextCheck = Compile(RunContext);

/** The engine port on the store: starts, signals and tells the status. It keeps nothing that the log does not have. */
export class LedgerEngine implements Engine {
  readonly #ports: LedgerEnginePorts;
  readonly #placement: Placement;

  constructor(ports: LedgerEnginePorts, placement: Placement) {
    this.#ports = ports;
    this.#placement = placement;
  }

  get name(): EngineName {
    return this.#placement.engine;
  }

  capabilities(): CapabilityRow {
    return CAPABILITY_MATRIX[this.#placement.engine];
  }

  /** The reference of a run of this engine. */
  refOf(run: { readonly runId: string; readonly tenantId?: string }): EngineRunRef {
    return this.#placement.ref(run);
  }

  async startRun(planRef: PlanRef, context: RunContext, options: StartOptions = {}): Promise<EngineRunRef> {
    checkContext(context, this.#placement.engine);
    const { plan } = await this.#ports.plans.fetch(planRef);
    const workload =
      options.workload === undefined
        ? undefined
        : await storeResult(this.#ports.artifacts, options.workload, undefined, 'workload');
    const request: Omit<Extract<Command, { type: 'request' }>, 'now'> = {
      type: 'request',
      ...requestFields(planRef, context, options, workload),
    };
    return this.#start(plan, planRef, context, options, request);
  }

  /** A new run that takes over what an ended one has completed. */
  async retryRun(
    ref: EngineRunRef,
    options: { readonly runId?: string; readonly from?: string; readonly planRef?: PlanRef } = {},
    caller?: Caller,
  ): Promise<EngineRunRef> {
    const run = await this.#find(ref, caller);
    const retry = await retryCommand(this.#ports, run);
    const planRef = options.planRef ?? retry.planRef;
    const { plan } = await this.#ports.plans.fetch(planRef);
    const context: RunContext = {
      tenantId: run.tenantId,
      projectId: run.projectId,
      environmentId: run.environmentId,
      runId: options.runId ?? randomUUID(),
      targetAdapter: this.#placement.engine,
    };
    const start: StartOptions = { trigger: { type: 'api' } };
    const fields = requestFields(planRef, context, start, retry.old.run.workload);
    const command = {
      type: 'retryRun' as const,
      ...fields,
      old: retry.old,
      loops: retry.loops,
      ...(options.from === undefined ? {} : { from: options.from }),
    };
    return this.#start(plan, planRef, context, start, command, run.runId);
  }

  async #start(
    plan: Plan,
    planRef: PlanRef,
    context: RunContext,
    options: StartOptions,
    request: Omit<Extract<Command, { type: 'request' | 'retryRun' }>, 'now'>,
    retryOf?: string,
  ): Promise<EngineRunRef> {
    const { engine } = this.#placement;
    await this.#placement.prepare();
    const report = checkCapabilities(plan, engine);
    const { runId, tenantId, projectId, environmentId } = context;
    const { planId, planVersion } = planRef;
    const now = Date.now();
    const emittedAt = new Date(now).toISOString();
    const identity = { runKey: 0, runId, tenantId, projectId, environmentId, planId, planVersion };
    const ref = this.#placement.ref(context);
    const blank = new RunView(identity, plan).state;
    const requested = eventsOf(decide(plan, blank, { ...request, now: emittedAt } as Command));
    const pending = expectStored(blank, requested, emittedAt);
    const started = eventsOf(
      decide(plan, pending, {
        type: 'start',
        now: emittedAt,
        started: {
          status: 'RUNNING',
          engineRunRef: ref,
          engineType: engine,
          planRef,
          context: eventContext(context, options),
          startedAt: emittedAt,
          ...(report.warnings.length === 0 ? {} : { degraded: true, warnings: [...report.warnings] }),
          validationReport: { ...report },
        },
        ...(options.notBefore === undefined ? {} : { notBefore: options.notBefore }),
      }),
    );
    const drafts: EventDraft[] = [...requested, ...started];
    const after = expectStored(blank, drafts, emittedAt);
    const taker = this.#placement.taker();
    const room = taker?.room ?? 0;
    const changes = workChanges(drafts, { before: blank, after, room, graceMs: this.#ports.graceMs, now });
    const events = drafts.map((draft) => stampEvent(identity, draft, { emittedAt }));
    const work = changes.work.flatMap((change) =>
      change.op !== 'insert'
        ? []
        : [
            {
              unit: change.unit,
              ...(change.dueAt === undefined ? {} : { dueAt: change.dueAt }),
              ...(change.lease && taker ? { owner: taker.owner, leaseMs: this.#ports.leaseMs } : {}),
            },
          ],
    );
    const { parent, trigger, runRequestId } = options;
    const made = await this.#ports.work.startRun(
      {
        runId,
        tenantId,
        projectId,
        environmentId,
        planId,
        planVersion,
        engine,
        events,
        ...(runRequestId === undefined ? {} : { runRequestId }),
        ...(trigger?.ref === undefined ? {} : { trigger: { type: trigger.type, ref: trigger.ref } }),
        ...(parent === undefined ? {} : { parentRunId: parent.runId }),
        ...(retryOf === undefined ? {} : { retryOf }),
      },
      work,
    );
    if (!made.created) return this.#placement.ref({ runId: made.runId, tenantId });
    const view = RunView.begun({ ...identity, runKey: made.runKey }, plan, events, after);
    if (after.run.status !== null && isTerminal(after.run.status)) this.#ports.ended(view);
    else this.#ports.views.put(view);
    await this.#placement.placed({ run: view.run, ref, units: work, leases: made.leases });
    if (changes.free > 0) this.#ports.signals.work();
    return ref;
  }

  /** The child that a parked step waits for. */
  async startChild(view: RunView, wait: WaitState): Promise<void> {
    const { child, workload, entity } = (wait.details ?? {}) as {
      child: { path: string; sha256?: string };
      workload?: Record<string, unknown>;
      entity: string;
    };
    const planRef = await this.#ports.plans.childRef(child);
    const { tenantId, projectId, environmentId, runId } = view.run;
    const rootRunId = firstChildRunId(view.state.run.rootRunId ?? runId, entity);
    await this.startRun(
      planRef,
      { tenantId, projectId, environmentId, runId: wait.childRunId!, targetAdapter: this.#placement.engine },
      {
        ...(workload === undefined ? {} : { workload }),
        parent: {
          runId,
          stepId: wait.stepId,
          entity: wait.entity,
          ...(rootRunId === wait.childRunId ? {} : { rootRunId }),
        },
        trigger: { type: 'api' },
      },
    );
  }

  async relaySignal(runId: string, signalType: string, signalId: string): Promise<void> {
    const { tenantId } = (await this.#ports.store.findRun(runId))!;
    for (const childId of await this.#ports.work.openChildren(runId)) {
      const ref = this.#placement.ref({ runId: childId, tenantId });
      await this.signal(ref, { signalId: `${signalId}/${childId}`.slice(-200), type: signalType, by: `run:${runId}` });
    }
  }

  async cancelRun(ref: EngineRunRef, caller?: Caller): Promise<void> {
    await this.signal(ref, { signalId: randomUUID(), type: 'CANCEL' }, caller);
  }

  async getRunStatus(ref: EngineRunRef, caller?: Caller): Promise<RunStatusSnapshot> {
    const run = await this.#find(ref, caller);
    const state = await this.#stateOf(run.runId);
    const { status, startedAt, completedAt } = state.run;
    const word = substatus(state, await this.#engineWord(run));
    const message = statusMessage(state);
    return {
      runId: run.runId,
      status: status ?? 'PENDING',
      ...(word === undefined ? {} : { substatus: word }),
      ...(message === undefined ? {} : { message }),
      ...(startedAt === undefined ? {} : { startedAt }),
      ...(completedAt === undefined || status === null || !isTerminal(status) ? {} : { completedAt }),
    };
  }

  async #engineWord(run: RunRow): Promise<string | undefined> {
    return run.status === undefined || isTerminal(run.status) ? undefined : this.#placement.word(run);
  }

  async #stateOf(runId: string): Promise<RunState> {
    const view = await this.#viewOf(runId, true);
    await this.#ports.views.refresh(view);
    const { status } = view.state.run;
    if (status !== null && isTerminal(status)) this.#ports.views.forget(runId);
    return view.state;
  }

  /** Without its plan a run can be looked at and ended, and nothing else. */
  async #viewOf(runId: string, mayLackPlan: boolean): Promise<RunView> {
    try {
      return await this.#ports.views.get(runId);
    } catch (thrown) {
      if (!mayLackPlan || !(thrown instanceof PlanUnreadable)) throw thrown;
      return this.#ports.views.withoutPlan(runId);
    }
  }

  async signal(ref: EngineRunRef, request: SignalRequest, caller?: Caller): Promise<SignalAnswer> {
    const run = await this.#find(ref, caller);
    const { signalId, type: signalType, by, role, stepId, parameters } = request;
    const view = await this.#viewOf(run.runId, signalType === 'CANCEL');
    const result = await commitDecision(this.#ports, {
      view,
      // A cancellation lists what is open, and iterations come and go without moving the head.
      lock: signalType === 'CANCEL',
      ask: () => ({
        type: 'signal',
        signalId,
        signalType,
        ...(by === undefined ? {} : { by }),
        ...(role === undefined ? {} : { role }),
        ...(stepId === undefined ? {} : { stepId }),
        ...(parameters === undefined ? {} : { parameters }),
      }),
    });
    if (!result.done && result.why === 'refused') throw result.error;
    // The same signal twice tells it twice: the first sender may have died before it did.
    await this.#placement.changed(run);
    if (!result.done && result.why === 'rejected') throw new AppError(result.code, result.message);
    const rejected = result.done ? result.events.find(({ eventType }) => eventType === 'SignalRejected') : undefined;
    if (rejected) {
      const { code, reason } = rejected.payload as { code: string; reason: string };
      return { accepted: false, code, reason };
    }
    if (result.done) return { accepted: true };
    // The same signal was decided before.
    return { accepted: (await this.#stateOf(run.runId)).signals.get(signalId) === 'accepted' };
  }

  /** Takes a person's word for what became of a write whose outcome was lost. The step that it settled. */
  async settle(ref: EngineRunRef, request: SettleRequest, caller?: Caller): Promise<{ readonly step: string }> {
    const run = await this.#find(ref, caller);
    const step = await settleWrite(this.#ports, await this.#viewOf(run.runId, false), request);
    await this.#placement.changed(run);
    return { step };
  }

  /** The steps of a run as a queue shows them, with who holds them. */
  async listSteps(ref: EngineRunRef, caller?: Caller): Promise<StepRow[]> {
    const { runId } = await this.#find(ref, caller);
    return listSteps(this.#ports.store, this.#ports.work, runId);
  }

  /** Puts back rows of work that the log asks for and that are missing. */
  async repair(runId: string): Promise<number> {
    const added = await repairRun(this.#ports, runId);
    const run = await this.#ports.store.findRun(runId);
    if (run) await this.#placement.changed(run);
    return added;
  }

  async #find(ref: EngineRunRef, caller: Caller | undefined): Promise<RunRow> {
    if (!refCheck.Check(ref)) {
      throw new AppError('SCHEMA_VALIDATION_FAILED', 'The reference of the run lacks what its provider demands.');
    }
    const run = (await this.#ports.store.findRun(ref.runId)) ?? (await this.#byProvider(ref));
    // Another tenant's run is as good as none.
    if (!run || (caller && caller.tenantId !== run.tenantId)) {
      throw new AppError('RUN_NOT_FOUND', `There is no run ${ref.runId}`, { runId: ref.runId });
    }
    if (run.engine !== this.#placement.engine) {
      const message = `Run ${run.runId} is on ${run.engine}, and this engine is ${this.#placement.engine}.`;
      throw new AppError('CAPABILITY_NOT_SUPPORTED', message, { runId: run.runId, engine: run.engine });
    }
    return run;
  }

  async #byProvider(ref: EngineRunRef): Promise<RunRow | undefined> {
    const { provider, workflowId, providerRunId } = ref;
    if (providerRunId === undefined) return undefined;
    return this.#ports.store.findRunByProvider({ provider, workflowId, providerRunId });
  }
}

function checkContext(context: RunContext, engine: EngineName): void {
  if (!contextCheck.Check(context)) {
    throw new AppError(
      'SCHEMA_VALIDATION_FAILED',
      'The context of a run needs tenant, project, environment, runId and engine.',
    );
  }
  if (context.targetAdapter !== engine) {
    throw new AppError('CAPABILITY_NOT_SUPPORTED', `This engine is ${engine}, not ${context.targetAdapter}.`);
  }
}

function eventContext({ tenantId, projectId, environmentId }: RunContext, options: StartOptions) {
  return {
    tenantId,
    projectId,
    environmentId,
    ...(options.triggeredBy === undefined ? {} : { triggeredBy: options.triggeredBy }),
    triggerSource: options.trigger?.type ?? 'api',
  };
}

function requestFields(
  planRef: PlanRef,
  context: RunContext,
  options: StartOptions,
  workload: StoredValue | undefined,
) {
  const { parent, trigger, runRequestId } = options;
  return {
    planRef: { ...planRef },
    context: eventContext(context, options),
    ...(workload === undefined ? {} : { workload }),
    triggerType: trigger?.type ?? 'api',
    ...(trigger?.ref === undefined ? {} : { triggerRef: trigger.ref }),
    ...(runRequestId === undefined ? {} : { runRequestId }),
    ...(parent === undefined
      ? {}
      : { parentRunId: parent.runId, parentStepId: parent.stepId, parentEntity: parent.entity }),
    ...(parent?.rootRunId === undefined ? {} : { rootRunId: parent.rootRunId }),
  };
}
