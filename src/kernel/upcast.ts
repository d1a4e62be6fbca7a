import type { RunEventRecord } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import { ENGINES } from '../contracts/values.ts';
import { errorOf, isObject, type JsonObject, objectOf, textOf } from './payload-reader.ts';

/** What a v1 event does not say about its run: v1 named the plan and the tenant only in RunStarted. */
export interface RunIdentity {
  readonly tenantId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly planId: string;
  readonly planVersion: string;
}

/** The fields of the v1 envelope; every other top-level field was part of the payload. */
const ENVELOPE = new Set([
  'eventType',
  'eventId',
  'runId',
  'runSeq',
  'idempotencyKey',
  'emittedAt',
  'occurredAt',
  'persistedAt',
  'stepId',
  'entity',
  'payload',
  'engineAttemptId',
  'logicalAttemptId',
  'tenantId',
  'projectId',
  'environmentId',
  'planId',
  'planVersion',
]);

/**
 * A v1 event in the record shape. Id and key stay as they were stored, attempts are 1 where v1 had none, and what v1
 * kept at the top level goes into the payload. The same input always gives the same record.
 */
export function upcastV1(event: unknown, identity?: RunIdentity): RunEventRecord {
  if (!isObject(event)) throw refuse('it is not an object');
  const payload = payloadOf(event);
  const ref = objectOf(payload['planRef']);
  const context = objectOf(payload['context']);
  const emittedAt = required('emittedAt', event['emittedAt'] ?? event['occurredAt']);
  const stepId = textOf(event['stepId']);
  const entity = textOf(event['entity']);
  const own = (key: keyof RunIdentity, inside: unknown) => required(key, event[key] ?? inside ?? identity?.[key]);
  return {
    eventId: required('eventId', event['eventId']),
    eventType: required('eventType', event['eventType']).replace(/^on(?=[A-Z])/, ''),
    emittedAt,
    runId: required('runId', event['runId']),
    tenantId: own('tenantId', context['tenantId']),
    projectId: own('projectId', context['projectId']),
    environmentId: own('environmentId', context['environmentId']),
    planId: own('planId', ref['planId']),
    planVersion: own('planVersion', ref['planVersion']),
    engineAttemptId: attemptOf(event['engineAttemptId']),
    logicalAttemptId: attemptOf(event['logicalAttemptId']),
    idempotencyKey: required('idempotencyKey', event['idempotencyKey']),
    ...(stepId === undefined ? {} : { stepId }),
    ...(entity === undefined ? {} : { entity }),
    ...(Object.keys(payload).length === 0 ? {} : { payload }),
    runSeq: sequenceOf(event['runSeq']),
    persistedAt: textOf(event['persistedAt']) ?? emittedAt,
  };
}

/** The identity that later events of the run lack, read off its upcast RunStarted. */
export function identityOf(record: RunEventRecord): RunIdentity {
  const { tenantId, projectId, environmentId, planId, planVersion } = record;
  return { tenantId, projectId, environmentId, planId, planVersion };
}

function payloadOf(event: JsonObject): Record<string, unknown> {
  const payload: Record<string, unknown> = { ...objectOf(event['payload']) };
  for (const [key, value] of Object.entries(event)) if (!ENVELOPE.has(key)) payload[key] = value;
  if (typeof payload['engineRunRef'] === 'string') {
    payload['engineRunRef'] = engineRunRef(payload['engineRunRef'], payload['engineType'], event['runId']);
  }
  if (isObject(payload['error'])) payload['error'] = errorOf(payload['error']);
  return payload;
}

/** v1 wrote `temporal://namespace/workflow/run/providerRun` and `conductor://host/workflow/execution`. */
function engineRunRef(text: string, engineType: unknown, runId: unknown): Record<string, unknown> {
  const [scheme, rest = ''] = text.includes('://') ? text.split('://', 2) : [undefined, text];
  const parts = (rest as string).split('/').filter((part) => part.length > 0);
  const provider = ENGINES.find((name) => name === engineType) ?? ENGINES.find((name) => name === scheme) ?? 'mock';
  const place = provider === 'temporal' || provider === 'conductor' ? (parts.shift() ?? 'default') : undefined;
  const workflowId = parts.shift() ?? text;
  const providerRunId = parts.at(-1);
  return {
    provider,
    ...(provider === 'temporal' ? { namespace: place } : {}),
    ...(provider === 'conductor' ? { conductorUrl: place } : {}),
    workflowId,
    runId,
    ...(providerRunId === undefined ? {} : { providerRunId }),
  };
}

function attemptOf(value: unknown): number {
  const attempt = typeof value === 'string' ? Number(value) : value;
  return typeof attempt === 'number' && Number.isSafeInteger(attempt) && attempt >= 1 ? attempt : 1;
}

function sequenceOf(value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1) return value;
  throw refuse('runSeq is not a positive integer');
}

function required(key: string, value: unknown): string {
  const text = textOf(value);
  if (text === undefined) throw refuse(`${key} is missing`);
  return text;
}

function refuse(problem: string): AppError {
  return new AppError('SCHEMA_VALIDATION_FAILED', `The v1 event cannot be read: ${problem}.`);
}
