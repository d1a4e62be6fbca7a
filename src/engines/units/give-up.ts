import type { AppError } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { RunState } from '../../kernel/state.ts';
import type { Ask } from './commit-decision.ts';

/** What is asked about a run that nobody can go on with: it fails, or ends as cancelled if somebody had asked for that. */
export function giveUpCommand(state: RunState, { code, message }: AppError): Ask | undefined {
  const { status, cancel } = state.run;
  if (status === null || isTerminal(status)) return undefined;
  if (cancel) return { type: 'cancelGraceOver' };
  const error = { category: 'plan', code, message: message.slice(0, 2000), retryable: false };
  return { type: 'failRun', error, abandon: true };
}
