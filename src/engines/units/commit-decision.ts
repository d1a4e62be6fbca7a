import type { RunEventWrite } from '../../contracts/envelope.ts';
import type { AppError, ErrorCode } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { Command, EventDraft } from '../../kernel/commands.ts';
import { decide } from '../../kernel/decide.ts';
import type { RunState } from '../../kernel/state.ts';
import { faultPoint } from '../../lib/fault-point.ts';
import { stampEvent } from '../../store/stamp-event.ts';
import type { CommitResult, Lease, WorkCommit, WorkStore } from '../../store/work.ts';
import type { WorkSignals } from '../../store/work-signals.ts';
import type { ArtifactStore } from '../../tools/tool.ts';
import { type Expected, expectStored, type RunView } from '../../worker/run-view.ts';
import { fetchValues } from '../../worker/store-result.ts';
import { openingFirst } from './leased-unit.ts';
import { workChanges } from './work-changes.ts';

/** Refused so often by others who were faster, a decision is taken while nobody else can append to the run. */
const MAX_REFUSALS = 3;

type Spread<T> = T extends unknown ? Omit<T, 'now' | 'random' | 'values'> : never;
/** A command without what the shell adds: the time, the jitter and stored values. */
export type Ask = Spread<Command>;

/** A unit that is to be taken, from its time on. */
export interface ScheduledUnit {
  readonly unit: string;
  readonly dueAt?: string;
}

export interface DecisionPorts {
  readonly work: WorkStore;
  readonly signals: WorkSignals;
  readonly artifacts: ArtifactStore;
  readonly owner: string;
  readonly leaseMs: number;
  /** For how long units that follow are leased to whoever made them, if not for as long as any other lease. */
  readonly handMs?: number;
  readonly graceMs: number;
  /** Reads what others have appended. */
  readonly refresh: (view: RunView) => Promise<void>;
  /** Something is due at this time: whoever works here looks then, and need not wait for its poll. */
  readonly dueAt: (millis: number) => void;
  /** For an engine that schedules by itself: what a stored decision has left to be done by whoever is told to. */
  readonly scheduled?: (units: readonly ScheduledUnit[]) => void;
  /** The run has ended. */
  readonly ended: (view: RunView) => void;
}

export interface DecisionRequest {
  readonly view: RunView;
  /** What to ask on the newest state; undefined when there is nothing to decide any more. */
  readonly ask: (state: RunState) => Ask | undefined;
  readonly facts?: readonly EventDraft[];
  readonly own?: Lease | undefined;
  readonly engineAttempt?: number;
  /** Which execution of the engine decides: the ordinal that events of the run itself carry. */
  readonly execution?: number;
  readonly room?: () => number;
  /** Take the decision with the run locked from the beginning. */
  readonly lock?: boolean;
}

export type DecisionResult =
  | { readonly done: true; readonly events: readonly EventDraft[]; readonly leases: readonly Lease[] }
  | { readonly done: false; readonly why: 'lost' | 'nothing' }
  | { readonly done: false; readonly why: 'rejected'; readonly code: ErrorCode; readonly message: string }
  | { readonly done: false; readonly why: 'refused'; readonly error: AppError };

/** Decides on what is known of the run and stores the decision with the work that follows; decides again if it came too late. */
export async function commitDecision(ports: DecisionPorts, request: DecisionRequest): Promise<DecisionResult> {
  const { view } = request;
  if (request.lock) return decideLocked(ports, request);
  for (let refusals = 0; refusals < MAX_REFUSALS; refusals++) {
    // Own facts that came behind those of others are not in the state yet.
    if (view.isBehind) await ports.refresh(view);
    let made = await make(ports, request);
    if ('why' in made && made.why === 'rejected') {
      await ports.refresh(view);
      made = await make(ports, request);
    }
    if (!('commit' in made)) return made;
    await faultPoint('commit.before');
    const result = await ports.work.commit(made.commit);
    await faultPoint('commit.after');
    if (result.ok || result.reason !== 'HEAD_MOVED') return finish(ports, request, made, result);
    view.take(result.missing);
  }
  return decideLocked(ports, request);
}

/** Nothing is believed or told before the commit: one that is lost is made again, on what is stored. */
async function decideLocked(ports: DecisionPorts, request: DecisionRequest): Promise<DecisionResult> {
  const { view } = request;
  const decided = await ports.work.locked(view.run, view.state.lastEventSeq, async (missing, commit) => {
    view.take(missing);
    const made = await make(ports, request);
    return 'commit' in made ? { made, result: await commit(made.commit) } : made;
  });
  return 'result' in decided ? finish(ports, request, decided.made, decided.result) : decided;
}

interface Made {
  readonly commit: WorkCommit;
  readonly decided: readonly EventDraft[];
  readonly written: readonly RunEventWrite[];
  readonly expected: Expected;
  readonly free: number;
  readonly stops: boolean;
  readonly ends: boolean;
}

async function make(
  ports: DecisionPorts,
  request: DecisionRequest,
): Promise<Made | Extract<DecisionResult, { done: false }>> {
  const { view, own, facts = [], engineAttempt = 1, execution = 1 } = request;
  const now = Date.now();
  const emittedAt = new Date(now).toISOString();
  // Taken together: others in this process may bring the view forward while values are fetched.
  const { state, head } = view;
  const before = expectStored(state, facts, emittedAt, engineAttempt);
  const ask = request.ask(before);
  if (!ask) return { done: false, why: 'nothing' };
  let values: Record<string, unknown> = {};
  for (;;) {
    const decision = decide(view.plan, before, { ...ask, now: emittedAt, random: Math.random(), values } as Command);
    if ('need' in decision) {
      values = await fetchValues(ports.artifacts, decision.need, values);
      continue;
    }
    if ('reject' in decision) return { done: false, why: 'rejected', ...decision.reject };
    const { events } = decision;
    if (events.length === 0) return { done: false, why: 'nothing' };
    const said =
      execution === 1
        ? events
        : events.map((draft) => (draft.stepId === undefined ? { engineAttemptId: execution, ...draft } : draft));
    const after = expectStored(before, said, emittedAt);
    const plan = workChanges(events, {
      before,
      after,
      own,
      room: request.room?.() ?? 0,
      graceMs: ports.graceMs,
      now,
    });
    const stamp = { emittedAt };
    const byWorker = { ...stamp, engineAttemptId: engineAttempt };
    const written = facts.map((draft) => stampEvent(view.run, draft, byWorker));
    const decided = said.map((draft) => stampEvent(view.run, draft, stamp));
    return {
      decided: events,
      written: [...written, ...decided],
      expected: { from: state, to: after },
      free: plan.free,
      stops: plan.stops,
      ends: after.run.status !== null && isTerminal(after.run.status),
      commit: {
        run: view.run,
        ...openingFirst(written),
        decision: decided,
        expectedHead: head,
        seenSeq: state.lastEventSeq,
        owner: ports.owner,
        leaseMs: ports.handMs ?? ports.leaseMs,
        work: plan.work,
        loops: plan.loops,
      },
    };
  }
}

function finish(ports: DecisionPorts, { view }: DecisionRequest, made: Made, result: CommitResult): DecisionResult {
  if (!result.ok) {
    view.take(result.missing);
    return result.reason === 'LEASE_LOST'
      ? { done: false, why: 'lost' }
      : { done: false, why: 'refused', error: result.error };
  }
  view.stored(made.written, result.receipts, made.expected);
  follow(ports, view, made);
  return { done: true, events: made.decided, leases: [...result.leases, ...result.handouts] };
}

/** Tells whoever has to know what a stored decision has changed. */
export function follow(
  ports: DecisionPorts,
  view: RunView,
  made: Pick<Made, 'free' | 'stops' | 'ends'> & { readonly commit: Pick<WorkCommit, 'work'> },
): void {
  for (const change of made.commit.work ?? []) {
    if (change.op !== 'insert') continue;
    if (change.dueAt !== undefined) ports.dueAt(Date.parse(change.dueAt));
    if (!change.held) ports.scheduled?.([change]);
  }
  if (made.free > 0) ports.signals.work();
  if (made.stops) ports.signals.stop(view.run.runKey);
  if (made.ends) ports.ended(view);
}
