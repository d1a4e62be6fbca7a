import { ERRORS, type ErrorCode } from '../contracts/errors.ts';
import { nextCommand, shellWord } from './next-command.ts';
import { unknownWrites } from './open-writes.ts';
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
export function failureAdvice(args: Arguments, tree: RunTree): Advice {
  // The cause is where the failure began; what is typed again is the run that a person started.
  const retry = nextCommand(args, `retry ${tree.runId.slice(0, 8)}`);
  const advice = causeAdvice(args, failedChild(tree), retry);
  const isLost = unknownWrites(tree).length > 0;
  // To run the playbook anew would send what may have happened.
  return isLost ? { cure: advice.cure, next: [retry, ...advice.next.filter(isLook)] } : advice;
}

const isLook = (line: string): boolean => /^runledger (logs|events) /.test(line);

/** The run in which the failure began: this one, or one that it waited for. */
function failedChild(tree: RunTree): RunTree {
  const { error, steps } = tree;
  if (error?.code !== 'CHILD_RUN_FAILED' || error.stepId === undefined) return tree;
  const child = steps.get(error.stepId)?.children.findLast((run) => run.error !== undefined);
  return child ? failedChild(child) : tree;
}

function causeAdvice(args: Arguments, { runId, error, steps }: RunTree, retry: string): Advice {
  const short = runId.slice(0, 8);
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
