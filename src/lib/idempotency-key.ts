import { sha256Hex } from './hash.ts';

/** The parts of the key. Tenant, project, environment and engine attempt are left out on purpose. */
export interface KeyParts {
  readonly runId: string;
  readonly stepId?: string | undefined;
  readonly entity?: string | undefined;
  readonly logicalAttemptId: number;
  readonly eventType: string;
  readonly planId: string;
  readonly planVersion: string;
}

/** Strings are used verbatim: no trimming, case folding or Unicode normalisation. */
export function idempotencyPreimage(parts: KeyParts): string {
  const place = parts.entity ?? parts.stepId ?? 'RUN';
  return `${parts.runId}|${place}|${parts.logicalAttemptId}|${parts.eventType}|${parts.planId}|${parts.planVersion}`;
}

export function idempotencyKey(parts: KeyParts): string {
  return sha256Hex(idempotencyPreimage(parts));
}
