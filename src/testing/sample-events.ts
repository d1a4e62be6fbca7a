import type { RunEventWrite } from '../contracts/envelope.ts';
import { type EventFacts, stampEvent } from '../store/stamp-event.ts';
import type { NewRun } from '../store/store.ts';

/** Events and runs for tests of stores and readers: well-formed, with as little in them as the contract asks for. */
export function sampleRun(runId: string, overrides: Partial<NewRun> = {}): NewRun {
  const run = {
    runId,
    tenantId: 'tenant_acme',
    projectId: 'proj_marketing',
    environmentId: 'prod',
    planId: 'plan_abc',
    planVersion: '2',
    ...overrides,
  };
  return {
    events: [sampleEvent(run, { eventType: 'PlaybookExecutionRequested', payload: requestPayload(run) })],
    ...run,
  };
}

type Scope = Omit<NewRun, 'events'>;

export function sampleEvent(run: Scope, facts: EventFacts, emittedAt = '2026-02-11T10:30:00.000Z'): RunEventWrite {
  return stampEvent(run, facts, { emittedAt });
}

const planRef = (run: Scope) => ({
  uri: `runledger-plan:sha256/${'e3'.repeat(32)}`,
  sha256: 'e3'.repeat(32),
  schemaVersion: 'v1.0',
  planId: run.planId,
  planVersion: run.planVersion,
});

const context = (run: Scope) => ({
  tenantId: run.tenantId,
  projectId: run.projectId,
  environmentId: run.environmentId,
  triggerSource: 'manual',
});

const requestPayload = (run: Scope) => ({ planRef: planRef(run), context: context(run) });

export function runStarted(run: Scope, startedAt = '2026-02-11T10:30:00.000Z'): RunEventWrite {
  return sampleEvent(run, {
    eventType: 'RunStarted',
    payload: {
      status: 'RUNNING',
      engineRunRef: { provider: 'native', workflowId: run.runId, runId: run.runId },
      engineType: 'native',
      planRef: planRef(run),
      context: context(run),
      startedAt,
    },
  });
}

export const sampleError = { category: 'http', code: 'TASK_FAILED', message: 'refused', retryable: false };
