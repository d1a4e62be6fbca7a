import { randomUUID } from 'node:crypto';
import { Client, type Connection, WorkflowIdConflictPolicy, WorkflowIdReusePolicy } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType, WorkflowNotFoundError } from '@temporalio/common';
import { isTerminal, type PlacedRun, type Placement, type RunRow, type Store } from '../../exports/engine.ts';
import { queueOf, type TemporalSettings, workflowIdOf } from './options.ts';
import { LOOK_SIGNAL, type LookSignal, type OpenUnit, type RunInput, WORKFLOW } from './protocol.ts';
import { unreachable } from './unreachable.ts';

type RunScope = Pick<RunRow, 'runId' | 'tenantId' | 'projectId' | 'environmentId' | 'planId'>;

const ATTRIBUTES = ['tenantId', 'projectId', 'environmentId', 'planId', 'runId'] as const;
/** A first execution is told its open work up to here; beyond, it asks the store. */
const MAX_TOLD = 500;
const WORD_TIMEOUT_MS = 1000;
/** A workflow task that waits longer than this is worth a word. */
const BACKLOG_MS = 5000;

export interface TemporalPlacementPorts {
  readonly connection: Connection;
  readonly settings: TemporalSettings;
  readonly store: Pick<Store, 'linkProvider'>;
  readonly onError: (error: unknown, what: string) => void;
}

/** Puts runs on Temporal: a workflow for each, which is told to look whenever something was decided outside of it. */
export class TemporalPlacement implements Placement {
  readonly engine = 'temporal';
  readonly #ports: TemporalPlacementPorts;
  readonly #client: Client;
  #attributes: Promise<readonly string[]> | undefined;
  /** Signals that are on their way, and whether another one must follow: a run has one at a time. */
  readonly #telling = new Map<string, { again: boolean }>();

  constructor(ports: TemporalPlacementPorts) {
    this.#ports = ports;
    this.#client = new Client({ connection: ports.connection, namespace: ports.settings.namespace });
  }

  ref({ runId, tenantId }: { readonly runId: string; readonly tenantId?: string }) {
    const { settings } = this.#ports;
    const { namespace } = settings;
    const queue = tenantId === undefined ? {} : { taskQueue: queueOf(settings, tenantId) };
    return { provider: 'temporal' as const, namespace, workflowId: workflowIdOf(runId), runId, ...queue };
  }

  /** Units are handed out by Temporal, never by whoever starts the run. */
  taker(): undefined {
    return undefined;
  }

  async prepare(): Promise<void> {
    await this.#registered();
  }

  /** The search attributes that the namespace has; asking for them also proves that it is there. */
  #registered(): Promise<readonly string[]> {
    this.#attributes ??= this.#askAttributes().catch((error: unknown) => {
      this.#attributes = undefined;
      throw unreachable(this.#ports.settings, error);
    });
    return this.#attributes;
  }

  async #askAttributes(): Promise<readonly string[]> {
    const { connection, settings } = this.#ports;
    const { namespace, searchAttributes } = settings;
    await this.#within(() => connection.workflowService.describeNamespace({ namespace }));
    if (searchAttributes !== 'registered') return searchAttributes ? ATTRIBUTES : [];
    try {
      const answer = await this.#within(() => connection.operatorService.listSearchAttributes({ namespace }));
      return ATTRIBUTES.filter((name) => Object.hasOwn(answer.customAttributes, name));
    } catch (error) {
      // Not everybody may ask that: then workflows go without.
      this.#ports.onError(error, 'search attributes');
      return [];
    }
  }

  async placed({ run, units }: PlacedRun): Promise<void> {
    const open = units.map(
      ({ unit, dueAt }): OpenUnit => ({
        unit,
        ...(dueAt === undefined ? {} : { due: Date.parse(dueAt) }),
      }),
    );
    const isAll = open.length <= MAX_TOLD;
    try {
      const start = await this.#startOptions(run, isAll ? { open } : { open: [], look: true });
      const handle = await this.#within(() =>
        this.#client.workflow.start(WORKFLOW, {
          ...start,
          workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,
        }),
      );
      const { runId } = run;
      const ref = { provider: this.engine, workflowId: handle.workflowId, providerRunId: handle.firstExecutionRunId };
      await this.#ports.store.linkProvider(runId, ref);
    } catch (error) {
      // The run is in the log, and a worker that finds it untaken starts its workflow.
      this.#ports.onError(error, `start of ${run.runId}`);
    }
  }

  async changed(run: RunRow): Promise<void> {
    const telling = this.#telling.get(run.runId);
    if (telling) {
      telling.again = true;
      return;
    }
    const state = { again: true };
    this.#telling.set(run.runId, state);
    try {
      while (state.again) {
        state.again = false;
        await this.tell(run, { id: randomUUID() });
      }
    } catch (error) {
      this.#ports.onError(error, `signal of ${run.runId}`);
    } finally {
      this.#telling.delete(run.runId);
    }
  }

  /** Tells the workflow of a run to look; one that was lost is started again, unless the run has ended. */
  async tell(run: RunRow, signal: LookSignal): Promise<void> {
    const hasEnded = run.status !== undefined && isTerminal(run.status);
    if (hasEnded) {
      const handle = this.#client.workflow.getHandle(workflowIdOf(run.runId));
      await this.#within(() => handle.signal(LOOK_SIGNAL, signal)).catch((error: unknown) => {
        if (!(error instanceof WorkflowNotFoundError)) throw error;
      });
      return;
    }
    const start = await this.#startOptions(run, { open: [], look: true });
    await this.#within(() =>
      this.#client.workflow.signalWithStart(WORKFLOW, { ...start, signal: LOOK_SIGNAL, signalArgs: [signal] }),
    );
  }

  async #startOptions(run: RunScope, given: Pick<RunInput, 'open' | 'look'>) {
    const { settings } = this.#ports;
    const input: RunInput = { runId: run.runId, ...given, limits: settings.workflow };
    const attributes = await this.#registered();
    return {
      workflowId: workflowIdOf(run.runId),
      taskQueue: queueOf(settings, run.tenantId),
      args: [input],
      workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
      typedSearchAttributes: ATTRIBUTES.filter((name) => attributes.includes(name)).map((name) => ({
        key: defineSearchAttributeKey(name, SearchAttributeType.KEYWORD),
        value: run[name],
      })),
    };
  }

  /** What the server alone knows; when it does not answer soon, nothing is said. */
  async word(run: RunRow): Promise<string | undefined> {
    const handle = this.#client.workflow.getHandle(workflowIdOf(run.runId));
    try {
      const { memo, raw } = await this.#within(() => handle.describe(), WORD_TIMEOUT_MS);
      if (typeof memo?.['substatus'] === 'string') return memo['substatus'];
      if (raw.pendingActivities?.some(({ attempt }) => (attempt ?? 1) > 1)) return 'RECOVERING';
      // Nobody has taken the workflow's task: no worker polls its queue, or they have more than they can do.
      const since = Number(raw.pendingWorkflowTask?.originalScheduledTime?.seconds ?? Number.NaN) * 1000;
      return Date.now() - since > BACKLOG_MS ? 'temporal/WORKFLOW_TASK_BACKLOG' : undefined;
    } catch {
      return undefined;
    }
  }

  #within<T>(call: () => Promise<T>, millis = this.#ports.settings.callTimeoutMs): Promise<T> {
    return this.#ports.connection.withDeadline(Date.now() + millis, call);
  }
}
