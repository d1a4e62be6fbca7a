import type { WorkflowLimits } from './protocol.ts';

export interface TemporalTls {
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly serverName?: string;
}

/** What `temporal` in the configuration may say. Every field may be left out. */
export interface TemporalOptions {
  /** `host:port` of the frontend; 127.0.0.1:7233 by default. */
  readonly address?: string;
  readonly namespace?: string;
  readonly tls?: boolean | TemporalTls;
  readonly apiKey?: string;
  /** The task queue of workflows and activities; `runledger` by default. */
  readonly taskQueue?: string;
  /** A queue for each tenant, named after it: `runledger-acme`. A worker polls those of `tenants`. */
  readonly queuePerTenant?: boolean;
  readonly tenants?: readonly string[];
  /**
   * Whether workflows carry tenantId, projectId, environmentId, planId and runId as search attributes. A server refuses
   * those that it does not know; by default it is asked which of them it has.
   */
  readonly searchAttributes?: boolean | 'registered';
  /** How long one call to the server may take before it counts as lost. */
  readonly callTimeoutMs?: number;
  /** Back-pressure: activities a second of one worker, and of the whole task queue. */
  readonly maxActivitiesPerSecond?: number;
  readonly maxQueueActivitiesPerSecond?: number;
  /** Workflows that a worker keeps in memory. */
  readonly maxCachedWorkflows?: number;
  /** How long a unit may lie untaken before somebody looks why. */
  readonly sweepAfterMs?: number;
  readonly workflow?: Partial<WorkflowLimits>;
}

const DEFAULT_LIMITS: WorkflowLimits = {
  maxInFlight: 500,
  maxEvents: 10_000,
  maxBytes: 10 * 1024 * 1024,
  handOverMs: 2000,
  heartbeatMs: 10_000,
  activityMs: 365 * 24 * 3_600_000,
  retryMs: 500,
  maxRetryMs: 30_000,
  idleMs: 3_600_000,
};

/** The options after the defaults were put in. */
export type TemporalSettings = Required<Omit<TemporalOptions, 'workflow' | 'apiKey' | LimitKey>> &
  Pick<TemporalOptions, 'apiKey' | LimitKey> & { readonly workflow: WorkflowLimits };
type LimitKey = 'maxActivitiesPerSecond' | 'maxQueueActivitiesPerSecond' | 'maxCachedWorkflows';

export function temporalSettings(options: TemporalOptions): TemporalSettings {
  return {
    address: '127.0.0.1:7233',
    namespace: 'default',
    tls: false,
    taskQueue: 'runledger',
    queuePerTenant: false,
    tenants: [],
    searchAttributes: 'registered',
    callTimeoutMs: 10_000,
    sweepAfterMs: 15_000,
    ...options,
    workflow: { ...DEFAULT_LIMITS, ...options.workflow },
  };
}

/** The queue on which a tenant's runs are. */
export function queueOf(settings: TemporalSettings, tenantId: string): string {
  return settings.queuePerTenant ? `${settings.taskQueue}-${tenantId}` : settings.taskQueue;
}

export const workflowIdOf = (runId: string): string => `runledger-${runId}`;
