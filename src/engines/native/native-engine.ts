import { randomUUID } from 'node:crypto';
import { Compile } from 'typebox/compile';
import { CAPABILITY_MATRIX } from '../../compiler/capability-matrix.ts';
import { AppError } from '../../contracts/errors.ts';
import type { Plan } from '../../contracts/plan.ts';
import type { RunStatusSnapshot } from '../../contracts/snapshot.ts';
import { isTerminal } from '../../contracts/states.ts';
import { EngineRunRef, type PlanRef, RunContext, type StoredValue } from '../../contracts/values.ts';
import type { Command, EventDraft } from '../../kernel/commands.ts';
import { decide, eventsOf } from '../../kernel/decide.ts';
import type { RunState, WaitState } from '../../kernel/state.ts';
import { statusMessage, substatus } from '../../kernel/status-words.ts';
import type { RunRow } from '../../store/sql/find-run.ts';
import { stampEvent } from '../../store/stamp-event.ts';
import type { Store } from '../../store/store.ts';
import { expectStored, RunView } from '../../worker/run-view.ts';
import { storeResult } from '../../worker/store-result.ts';
import { checkCapabilities } from '../check-capabilities.ts';
import type { Caller, Engine, SignalAnswer, SignalRequest, StartOptions } from '../engine.ts';
import type { PlanSource } from '../plan-ref.ts';
import { commitDecision, type DecisionPorts } from './commit-decision.ts';
import type { NativeWorker } from './native-worker.ts';
import { repairRun } from './repair-run.ts';
import { retryCommand } from './retry-command.ts';
import type { RunViews } from './run-views.ts';
import { workChanges } from './work-changes.ts';

export interface NativeEnginePorts extends DecisionPorts {
  readonly store: Store;
  readonly plans: PlanSource;
  readonly views: RunViews;
  /** A worker in this process, which takes the first step at once. */
  readonly worker?: () => NativeWorker | undefined;
}

const refCheck = Compile(EngineRunRef);
const contextCheck = Compile(RunContext);

/** Runs plans on leases in the store. It keeps nothing that the log does not have. */
export class NativeEngine implements Engine {
  readonly #ports: NativeEnginePorts;

  constructor(ports: NativeEnginePorts) {
    this.#ports = ports;
  }

  capabilities(): typeof CAPABILITY_MATRIX.native {
    return CAPABILITY_MATRIX.native;
  }

  async startRun(planRef: PlanRef, context: RunContext, options: StartOptions = {}): Promise<EngineRunRef> {
    checkContext(context);
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
      targetAdapter: 'native',
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
    const report = checkCapabilities(plan, 'native');
    const { runId, tenantId, projectId, environmentId } = context;
    const { planId, planVersion } = planRef;
    const now = Date.now();
    const emittedAt = new Date(now).toISOString();
    const identity = { runKey: 0, runId, tenantId, projectId, environmentId, planId, planVersion };
    const ref: EngineRunRef = { provider: 'native', workflowId: runId, runId };
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
          engineType: 'native',
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
    const worker = this.#ports.worker?.();
    const room = worker?.room ?? 0;
    const changes = workChanges(drafts, { before: blank, after, room, graceMs: this.#ports.graceMs, now });
    const events = drafts.map((draft) => stampEvent(identity, draft, { emittedAt }));
    const work = changes.work.flatMap((change) =>
      change.op !== 'insert'
        ? []
        : [
            {
              unit: change.unit,
              ...(change.dueAt === undefined ? {} : { dueAt: change.dueAt }),
              ...(change.lease && worker ? { owner: worker.owner, leaseMs: this.#ports.leaseMs } : {}),
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
        events,
        ...(runRequestId === undefined ? {} : { runRequestId }),
        ...(trigger?.ref === undefined ? {} : { trigger: { type: trigger.type, ref: trigger.ref } }),
        ...(parent === undefined ? {} : { parentRunId: parent.runId }),
        ...(retryOf === undefined ? {} : { retryOf }),
      },
      work,
    );
    if (!made.created) return { provider: 'native', workflowId: made.runId, runId: made.runId };
    const view = new RunView({ ...identity, runKey: made.runKey }, plan);
    view.take(events.map((event, i) => ({ ...event, runSeq: i + 1 })));
    if (after.run.status !== null && isTerminal(after.run.status)) this.#ports.ended(view);
    else this.#ports.views.put(view);
    worker?.take(made.leases.map((lease) => ({ ...lease, runKey: made.runKey, runId })));
    if (changes.free > 0) this.#ports.signals.work();
    return ref;
  }

  /** The child that a parked step waits for. */
  async startChild(view: RunView, wait: WaitState): Promise<void> {
    const { child, workload } = (wait.details ?? {}) as {
      child: { path: string; sha256?: string };
      workload?: Record<string, unknown>;
    };
    const planRef = await this.#ports.plans.childRef(child);
    const { tenantId, projectId, environmentId, runId } = view.run;
    await this.startRun(
      planRef,
      { tenantId, projectId, environmentId, runId: wait.childRunId!, targetAdapter: 'native' },
      {
        ...(workload === undefined ? {} : { workload }),
        parent: { runId, stepId: wait.stepId, entity: wait.entity },
        trigger: { type: 'api' },
      },
    );
  }

  async relaySignal(runId: string, signalType: string, signalId: string): Promise<void> {
    for (const childId of await this.#ports.work.openChildren(runId)) {
      const ref: EngineRunRef = { provider: 'native', workflowId: childId, runId: childId };
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
    const word = substatus(state);
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

  async #stateOf(runId: string): Promise<RunState> {
    const view = await this.#ports.views.get(runId);
    await this.#ports.views.refresh(view);
    const { status } = view.state.run;
    if (status !== null && isTerminal(status)) this.#ports.views.forget(runId);
    return view.state;
  }

  async signal(ref: EngineRunRef, request: SignalRequest, caller?: Caller): Promise<SignalAnswer> {
    const run = await this.#find(ref, caller);
    const { signalId, type: signalType, by, role, stepId, parameters } = request;
    const view = await this.#ports.views.get(run.runId);
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

  /** Puts back rows of work that the log asks for and that are missing. */
  async repair(runId: string): Promise<number> {
    return repairRun(this.#ports, runId);
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
    return run;
  }

  async #byProvider(ref: EngineRunRef): Promise<RunRow | undefined> {
    const { provider, workflowId, providerRunId } = ref;
    if (providerRunId === undefined) return undefined;
    return this.#ports.store.findRunByProvider({ provider, workflowId, providerRunId });
  }
}

function checkContext(context: RunContext): void {
  if (!contextCheck.Check(context)) {
    throw new AppError(
      'SCHEMA_VALIDATION_FAILED',
      'The context of a run needs tenant, project, environment, runId and engine.',
    );
  }
  if (context.targetAdapter !== 'native') {
    throw new AppError('CAPABILITY_NOT_SUPPORTED', `This engine is native, not ${context.targetAdapter}.`);
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
  };
}
