import { AppError } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import { unitEntity } from '../../kernel/entity-path.ts';
import type { RunState, WaitState } from '../../kernel/state.ts';
import type { RunView } from '../../worker/run-view.ts';
import { storeResult } from '../../worker/store-result.ts';
import type { SettleRequest } from '../engine.ts';
import type { LedgerEnginePorts } from '../ledger-engine.ts';
import { commitDecision } from './commit-decision.ts';

const OUTCOMES = { happened: 'done', 'send-again': 'approved', 'give-up': 'rejected' } as const;

/** Ends the wait for a person who knows what became of a write. The step goes on from there as the answer says. */
export async function settleWrite(ports: LedgerEnginePorts, view: RunView, request: SettleRequest): Promise<string> {
  const { answer, by, reason } = request;
  if (!Object.hasOwn(OUTCOMES, answer))
    throw new AppError('USAGE', `A write is settled by ${Object.keys(OUTCOMES).join(', ')}, not by '${answer}'.`);
  if (request.result !== undefined && answer !== 'happened')
    throw new AppError('USAGE', 'Only a write that happened has a result.');
  await ports.views.refresh(view);
  const { entity } = openWrite(view.state, view.run.runId, request.step);
  const result =
    answer === 'happened'
      ? await storeResult(ports.artifacts, request.result ?? null, undefined, 'told-result')
      : undefined;
  const decided = await commitDecision(ports, {
    view,
    ask: ({ waits }) =>
      waits.has(entity)
        ? {
            type: 'waitEnded',
            entity,
            outcome: OUTCOMES[answer],
            ...(by === undefined ? {} : { by }),
            ...(reason === undefined ? {} : { reason }),
            ...(result === undefined ? {} : { result }),
          }
        : undefined,
  });
  if (decided.done) return unitOf({ entity });
  if (decided.why === 'refused') throw decided.error;
  if (decided.why === 'rejected') throw new AppError(decided.code, decided.message);
  throw new AppError('NOTHING_TO_SETTLE', 'Somebody else has settled it a moment ago.', { runId: view.run.runId });
}

const unitOf = ({ entity }: Pick<WaitState, 'entity'>): string => entity.slice(0, entity.lastIndexOf('/wait:'));

/** The one wait that is meant. */
function openWrite(state: RunState, runId: string, step: string | undefined): WaitState {
  const { status } = state.run;
  const isOver = status !== null && isTerminal(status);
  const all = isOver ? [] : [...state.waits.values()].filter(isUnknownWrite);
  const meant =
    step === undefined
      ? all
      : all.filter(({ stepId, iteration }) => stepId === step || unitEntity(stepId, iteration) === step);
  if (meant.length === 1) return meant[0]!;
  const names = (waits: readonly WaitState[]): string => waits.map((wait) => unitOf(wait)).join(', ');
  const short = runId.slice(0, 8);
  const problem =
    meant.length > 1
      ? `Several writes of run ${short} are open; name one: ${names(meant)}`
      : all.length > 0
        ? `No write of '${step}' waits to be settled; these do: ${names(all)}`
        : `No write of run ${short} waits to be settled.`;
  throw new AppError('NOTHING_TO_SETTLE', problem, { runId });
}

const isUnknownWrite = ({ kind, details }: WaitState): boolean =>
  kind === 'approval' && details?.['reason'] === 'EFFECT_UNKNOWN';
