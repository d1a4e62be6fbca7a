import { ERRORS, type ErrorCode } from '../contracts/errors.ts';
import { nextCommand, shellWord } from './next-command.ts';
import type { Arguments } from './parse-command.ts';
import type { RunTree } from './run-tree.ts';
import { clean } from './terminal.ts';

/** What is outside of the playbook and can be changed without it: after that the same run can go on. */
const OUTSIDE: readonly string[] = ['URL_NOT_ALLOWED', 'POLICY_DENIED', 'APPROVAL_REJECTED', 'APPROVAL_EXPIRED'];
/** Code of the playbook itself: it fails again as it is. */
const OWN_CODE: readonly string[] = ['python', 'javascript'];
const PRINTS: readonly string[] = ['shell', ...OWN_CODE];

export interface Advice {
  readonly cure: string | undefined;
  /** The first is what to type, or to do; more stand below it. */
  readonly next: readonly string[];
}

/** What to do about a run that did not complete. A retry is offered where it can end otherwise. */
export function failureAdvice(args: Arguments, { runId, error, steps }: RunTree): Advice {
  const short = runId.slice(0, 8);
  const retry = nextCommand(args, `retry ${short}`);
  if (!error) return { cure: undefined, next: [retry] };
  const { code, category, retryable, stepId } = error;
  const row = Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode] : undefined;
  const cure = row?.cure.replace(/runledger (\w+) RUN/g, (_, verb) => nextCommand(args, `${verb} ${short}`));
  if (retryable || row?.retry === 'later') return { cure, next: [retry] };
  // The cure says what has to be done before.
  if (row?.retry === 'pause' || OUTSIDE.includes(code)) return { cure, next: [`${retry}   (when that is done)`] };
  const step = stepId === undefined ? '' : ` --step ${shellWord(clean(stepId).replace(/#\d+$/, ''))}`;
  // An arc that cannot be evaluated fails the run, not the step that it leaves.
  const type = [...steps.values()].some(({ mark }) => mark === 'failed') ? 'StepFailed' : 'RunFailed';
  const look = PRINTS.includes(category)
    ? nextCommand(args, `logs ${short}${step}`)
    : nextCommand(args, `events ${short} --type ${type}`);
  const correct = 'Correct the playbook, then run it again.';
  if (row || OWN_CODE.includes(category)) return { cure, next: [look, correct] };
  // A command or a server said no: the reason may be here or there.
  return { cure, next: [look, correct, `If the cause is elsewhere: ${retry}`] };
}
