import type { ErrorInfo } from '../contracts/values.ts';
import type { RunState } from './state.ts';

/** Nothing in a playbook catches these: no arc, no rule, no best_effort. Only a person or a policy can change them. */
const UNCATCHABLE: ReadonlySet<string> = new Set(['POLICY_DENIED', 'APPROVAL_REJECTED', 'APPROVAL_EXPIRED']);

/** Running the step again cannot help, or was not wanted. */
const NEVER_RETRIED: ReadonlySet<string> = new Set([...UNCATCHABLE, 'CANCELLED', 'CTX_CONFLICT', 'LOOP_NOT_A_LIST']);

export const isUncatchable = (error: ErrorInfo | undefined): boolean =>
  error !== undefined && UNCATCHABLE.has(error.code);

/** Who failed there says itself whether another try can help: a request that was refused as wrong stays wrong. */
const KNOWS_BETTER: ReadonlySet<string> = new Set(['http', 'input']);

export function mayRetryStep(error: ErrorInfo | undefined): boolean {
  if (error === undefined) return true;
  if (NEVER_RETRIED.has(error.code) || error.code.startsWith('TEMPLATE_')) return false;
  return error.retryable || !KNOWS_BETTER.has(error.category);
}

export const CANCELLED: ErrorInfo = Object.freeze({
  category: 'cancelled',
  code: 'CANCELLED',
  message: 'The run was cancelled.',
  retryable: false,
});

export const ABORTED: ErrorInfo = Object.freeze({
  category: 'cancelled',
  code: 'CANCELLED',
  message: 'Another step failed the run.',
  retryable: false,
});

/** Whether a step of this name must not go on. The final step runs after a failure; only a cancellation stops it. */
export function isStopping({ cancel, failure }: RunState['run'], name: string, finalStep: string | undefined): boolean {
  return cancel !== undefined || (failure?.mode === 'fail_fast' && name !== finalStep);
}
