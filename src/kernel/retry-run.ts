import type { ErrorCode } from '../contracts/errors.ts';
import { isTerminal } from '../contracts/states.ts';
import { didYouMean } from '../lib/closest-name.ts';
import type { CommandOf } from './commands.ts';
import type { Deciding } from './deciding.ts';
import { stepNameOf } from './entity-path.ts';
import type { RunState, StepState, Token } from './state.ts';
import { hasEnded } from './step-state.ts';
import { allSteps } from './to-snapshot.ts';

type Problem = { readonly code: ErrorCode; readonly message: string };

/**
 * The first append of a linked retry: everything that the new run needs of the old one, so that its log is complete
 * without it. Completed steps are carried, tokens that joins hold stay held, and what had not succeeded is scheduled
 * again where it stood.
 */
export function retryRun(d: Deciding, command: CommandOf<'retryRun'>, begin: () => void): Problem | undefined {
  const problem = check(d, command);
  if (problem) return problem;
  const { old } = command;
  const dropped = droppedSteps(d, command);
  const again = allSteps(old).filter((step) => runsAgain(d, command, step, dropped));
  if (command.from !== undefined && !again.some((step) => step.name === command.from)) {
    return refusal('INVALID_TRANSITION', `Step '${command.from}' did not run in '${old.runId}'.`);
  }
  begin();
  const kept = allSteps(old).filter((step) => !dropped.has(step.stepId) && !again.includes(step));
  const sent = sentTokens(d, old, new Set([...kept, ...again].map((step) => step.stepId)), dropped);
  for (const step of kept) carry(d, command, step, sent.get(step.stepId) ?? []);
  for (const step of again) schedule(d, command, step);
  const first = again[0] ?? kept[0];
  if (first && Object.keys(old.ctx).length > 0) carryCtx(d, first.stepId, old);
  return undefined;
}

function check(d: Deciding, { old, from, planRef }: CommandOf<'retryRun'>): Problem | undefined {
  const { status } = old.run;
  if (status === null || !isTerminal(status)) {
    return refusal(
      'INVALID_TRANSITION',
      `Run '${old.runId}' is ${status ?? 'unknown'}; only a run that ended is retried.`,
    );
  }
  if (old.erasedSeq !== undefined) {
    return refusal('PAYLOAD_ERASED', `Event ${old.erasedSeq} of '${old.runId}' was erased, so it cannot be retried.`);
  }
  if (!old.retention.keepFinished || old.retention.results === 'none') {
    return refusal('INTERNAL', 'A retry needs the old run folded with all of its steps and results.');
  }
  if (from !== undefined && !d.plan.steps.has(from))
    return refusal('STEP_NOT_FOUND', `The plan has no step '${from}'${didYouMean(from, d.plan.steps.keys()) || '.'}`);
  if (from !== undefined) return undefined;
  const hash = old.run.planRef?.sha256;
  if (hash !== undefined && hash !== planRef['sha256']) {
    return refusal('INVALID_TRANSITION', 'A retry with another plan has to say from which step.');
  }
  if (status === 'COMPLETED')
    return refusal('INVALID_TRANSITION', 'Nothing is left to do; say from which step to run again.');
  return undefined;
}

const refusal = (code: ErrorCode, message: string): Problem => ({ code, message });

/** What is not carried: the final step, which runs again at the end, and everything that `from` caused. */
function droppedSteps(d: Deciding, { old, from }: CommandOf<'retryRun'>): ReadonlySet<string> {
  const dropped = new Set<string>();
  for (const step of allSteps(old)) {
    const parents = step.cause?.kind === 'arc' ? step.cause.arrivals.map((arrival) => arrival.from) : [];
    const isBehind = parents.some(
      (parent) => dropped.has(parent) || (from !== undefined && stepNameOf(parent) === from),
    );
    if (isBehind || step.name === d.plan.plan.finalStep) dropped.add(step.stepId);
  }
  return dropped;
}

function runsAgain(
  d: Deciding,
  { old, from }: CommandOf<'retryRun'>,
  step: StepState,
  dropped: ReadonlySet<string>,
): boolean {
  if (dropped.has(step.stepId) || !d.plan.steps.has(step.name)) return false;
  if (step.name === from || !hasEnded(step)) return true;
  const wasCancelled = (step.error?.code ?? step.skipCode) === 'CANCELLED';
  // A failure that was handled has gone on; one that stands in `open` failed the run or was aborted with it.
  return wasCancelled || (step.status === 'FAILED' && old.open.has(step.stepId));
}

/** Every token that a kept instance sent: those that nobody took, and those of instances that are told here too. */
function sentTokens(
  d: Deciding,
  old: RunState,
  told: ReadonlySet<string>,
  dropped: ReadonlySet<string>,
): Map<string, Pick<Token, 'to' | 'arc' | 'args'>[]> {
  const sent = new Map<string, Pick<Token, 'to' | 'arc' | 'args'>[]>();
  const add = (from: string, token: Pick<Token, 'to' | 'arc' | 'args'>) => {
    if (!d.plan.steps.has(token.to)) return;
    sent.set(from, [...(sent.get(from) ?? []), token]);
  };
  for (const step of allSteps(old)) {
    if (step.cause?.kind !== 'arc') continue;
    // An instance that is dropped gives its tokens back, unless they came from what is dropped too.
    if (!told.has(step.stepId) && !dropped.has(step.stepId)) continue;
    for (const { from, arc } of step.cause.arrivals) add(from, { to: step.name, arc, args: step.args });
  }
  for (const tokens of old.tokens.values()) for (const token of tokens) add(token.from, token);
  return sent;
}

function carry(
  d: Deciding,
  command: CommandOf<'retryRun'>,
  step: StepState,
  tokens: readonly Pick<Token, 'to' | 'arc' | 'args'>[],
): void {
  const { old } = command;
  const isUnrouted = old.open.has(step.stepId);
  const receipts = command.receipts?.[step.stepId];
  d.emit('StepCarried', {
    stepId: step.stepId,
    payload: {
      from: { runId: old.runId, stepId: step.stepId, logicalAttemptId: step.attempt },
      step: step.name,
      status: step.status,
      ...given('result', step.result),
      ...given('taskResults', step.taskResults && { ...step.taskResults }),
      ...given('loop', step.loopEnd),
      ...(step.artifacts.length === 0 ? {} : { artifacts: [...step.artifacts] }),
      ...given('receipts', receipts && [...receipts]),
      ...given('error', step.error),
      ...given('skipReason', step.skipReason),
      ...given('cause', step.cause),
      ...given('args', step.args && { ...step.args }),
      ...(tokens.length === 0
        ? {}
        : { tokens: tokens.map(({ to, arc, args }) => ({ step: to, arc, ...given('args', args && { ...args }) })) }),
      ...(isUnrouted ? { unrouted: true } : {}),
    },
  });
}

function schedule(d: Deciding, command: CommandOf<'retryRun'>, step: StepState): void {
  const planned = d.stepOf(step.name).step;
  const loop = step.name === command.from ? undefined : command.loops?.[step.stepId];
  const tool = planned.tasks[0]?.kind;
  d.emit('StepScheduled', {
    stepId: step.stepId,
    payload: {
      step: step.name,
      stepIndex: planned.index,
      ...given('tool', tool),
      cause: step.cause?.kind === 'arc' ? step.cause : { kind: step.cause?.kind === 'entry' ? 'entry' : 'carried' },
      ...given('args', step.args && { ...step.args }),
      ...given('timeoutMs', step.timeoutMs),
      ...given('loop', loop && { ...loop }),
    },
  });
}

function carryCtx(d: Deciding, stepId: string, old: RunState): void {
  if (d.draft.open.has(stepId)) {
    d.patch(stepId, 'carried', old.ctx);
    return;
  }
  d.emit('CtxPatched', { stepId, entity: `${stepId}/ctx:1`, payload: { set: { ...old.ctx }, source: 'carried' } });
}

function given<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}
