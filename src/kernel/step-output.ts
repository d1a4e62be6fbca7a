import type { StepSnapshot } from '../contracts/snapshot.ts';
import type { StepOutput } from '../contracts/values.ts';

/** What a step yields once it has ended; undefined before. */
export function stepOutput({ status, artifacts, error }: StepSnapshot): StepOutput | undefined {
  if (status === 'PENDING' || status === 'RUNNING') return undefined;
  return { status, artifactRefs: [...artifacts], ...(error === undefined ? {} : { error }) };
}
