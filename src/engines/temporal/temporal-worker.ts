import { setTimeout as sleep } from 'node:timers/promises';
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, makeTelemetryFilterString, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { LeaseKeeper } from '../../exports/engine.ts';
import { type ActivityPorts, TemporalActivities } from './activities.ts';
import { placeOf } from './connect.ts';
import { queueOf, type TemporalSettings } from './options.ts';
import { Sweep } from './sweep.ts';
import type { TemporalPlacement } from './temporal-placement.ts';
import { unreachable } from './unreachable.ts';
import { workflowBundle } from './workflow-bundle.ts';

export interface TemporalWorkerOptions {
  /** Units that run at once. */
  readonly concurrency?: number;
  /** How long a stopping worker lets its units finish before it hands them back. */
  readonly drainMs?: number;
  readonly onError?: (error: unknown, what: string) => void;
}

export interface TemporalWorkerPorts extends Omit<ActivityPorts, 'leases' | 'onError' | 'isStopping'> {
  readonly placement: TemporalPlacement;
}

const AGAIN_MS = 1000;
/** How long the server waits for the worker that has a workflow in memory before it asks another one. */
const STICKY_MS = 3000;
const HEARTBEAT_MS = 2000;

/** Polls the task queues of Temporal and does what comes, until it is stopped. */
export class TemporalWorker {
  readonly #ports: TemporalWorkerPorts;
  readonly #settings: TemporalSettings;
  readonly #onError: (error: unknown, what: string) => void;
  readonly #concurrency: number;
  readonly #drainMs: number;
  readonly #leases: LeaseKeeper;
  readonly #sweep: Sweep;
  readonly #workers = new Set<Worker>();
  #connection: NativeConnection | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #isStopping = false;

  private constructor(ports: TemporalWorkerPorts, options: TemporalWorkerOptions) {
    this.#ports = ports;
    this.#settings = ports.settings;
    this.#onError = options.onError ?? (() => {});
    this.#concurrency = options.concurrency ?? 64;
    this.#drainMs = options.drainMs ?? 5000;
    this.#leases = new LeaseKeeper({ ...ports, onError: this.#onError });
    this.#sweep = new Sweep({ ...ports, afterMs: ports.settings.sweepAfterMs, onError: this.#onError });
  }

  /** Connects, makes the workflow bundle and begins to poll. */
  static async start(ports: TemporalWorkerPorts, options: TemporalWorkerOptions = {}): Promise<TemporalWorker> {
    const worker = new TemporalWorker(ports, options);
    await worker.#start();
    return worker;
  }

  get owner(): string {
    return this.#ports.owner;
  }

  async #start(): Promise<void> {
    installRuntime();
    const { tenants, queuePerTenant, taskQueue } = this.#settings;
    const queues = queuePerTenant ? tenants.map((tenant) => queueOf(this.#settings, tenant)) : [taskQueue];
    try {
      this.#connection = await NativeConnection.connect(await placeOf(this.#settings));
    } catch (error) {
      throw unreachable(this.#settings, error);
    }
    const activities = new TemporalActivities({
      ...this.#ports,
      leases: this.#leases,
      onError: this.#onError,
      isStopping: () => this.#isStopping,
    }).byName();
    try {
      const first = await Promise.all(queues.map((queue) => this.#create(queue, activities)));
      this.#running = Promise.all(first.map((worker, i) => this.#keepRunning(worker, queues[i]!, activities)));
    } catch (error) {
      await this.#connection.close();
      throw unreachable(this.#settings, error);
    }
    this.#leases.start();
    this.#sweep.start();
  }

  async #create(taskQueue: string, activities: object): Promise<Worker> {
    const { namespace, maxActivitiesPerSecond, maxQueueActivitiesPerSecond, maxCachedWorkflows } = this.#settings;
    return Worker.create({
      connection: this.#connection!,
      namespace,
      taskQueue,
      identity: this.owner,
      workflowBundle: await workflowBundle(),
      activities,
      maxConcurrentActivityTaskExecutions: this.#concurrency,
      stickyQueueScheduleToStartTimeout: STICKY_MS,
      // A cancellation comes as the answer to a heartbeat.
      maxHeartbeatThrottleInterval: HEARTBEAT_MS,
      shutdownGraceTime: this.#drainMs,
      shutdownForceTime: this.#drainMs + 10_000,
      ...(maxActivitiesPerSecond === undefined ? {} : { maxActivitiesPerSecond }),
      ...(maxQueueActivitiesPerSecond === undefined
        ? {}
        : { maxTaskQueueActivitiesPerSecond: maxQueueActivitiesPerSecond }),
      ...(maxCachedWorkflows === undefined ? {} : { maxCachedWorkflows }),
    });
  }

  /** A worker that ended without being asked, such as after a long absence of the server, is made again. */
  async #keepRunning(first: Worker, taskQueue: string, activities: object): Promise<void> {
    for (let worker: Worker | undefined = first; !this.#isStopping || worker; ) {
      try {
        worker ??= await this.#create(taskQueue, activities);
        this.#workers.add(worker);
        await worker.run();
      } catch (error) {
        this.#onError(error, `worker of ${taskQueue}`);
      }
      if (worker) this.#workers.delete(worker);
      worker = undefined;
      if (!this.#isStopping) await sleep(AGAIN_MS);
    }
  }

  /** Stops polling, lets units finish for a while, and hands back the rest at once. */
  async stop(drainMs = this.#drainMs): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    await this.#sweep.stop();
    for (const worker of this.#workers) if (worker.getState() === 'RUNNING') worker.shutdown();
    const late = drainMs < this.#drainMs ? setTimeout(() => void this.#leases.handBack(), drainMs) : undefined;
    await this.#running;
    clearTimeout(late);
    await this.#leases.stop();
    await this.#connection?.close();
  }
}

/** The SDK would take the signals of the process for itself, and print what concerns nobody. */
function installRuntime(): void {
  try {
    Runtime.install({
      shutdownSignals: [],
      logger: new DefaultLogger('ERROR'),
      // Left to itself, the native part prints to the terminal, between the lines of the command.
      telemetryOptions: {
        logging: { filter: makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' }), forward: {} },
      },
    });
  } catch (error) {
    // Somebody else in this process uses the SDK, and has made its choice.
    if (!(error instanceof IllegalStateError)) throw error;
  }
}
