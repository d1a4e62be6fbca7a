import { AppError } from '../contracts/errors.ts';
import type { Task } from '../contracts/plan.ts';
import type { StoredValue } from '../contracts/values.ts';
import type { EventDraft } from '../kernel/commands.ts';
import { effectEntity } from '../kernel/entity-path.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { faultPoint } from '../lib/fault-point.ts';
import { sha256Hex } from '../lib/hash.ts';
import type { Redactor } from '../lib/redact.ts';
import { defaultEffectKey } from '../tools/effect-key.ts';
import type { CallContext, CallPlace, Tool, ToolOutcome } from '../tools/tool.ts';
import type { EffectAction, PolicyPort } from './ports.ts';
import { loadValue } from './store-result.ts';
import type { UnitHost } from './unit-host.ts';

/** A call starts only if its time-out and this fit in the lease. */
const LEASE_MARGIN_MS = 5000;
/** A write that nobody limited: the finder of a lost one has to know when it is over. */
export const WRITE_TIMEOUT_MS = 60_000;
/** How soon the outcome of another's effect is looked for again. */
const LOOK_AGAIN_MS = 250;

/** The step has to wait: for the end of a pause, for a call that may be under way, or for a person. */
export class MustPark extends Error {
  readonly wait: {
    readonly kind: 'hold' | 'timer' | 'approval';
    readonly dueAt?: string;
    readonly actionDigest?: string;
    readonly details: Record<string, unknown>;
  };

  constructor(wait: MustPark['wait']) {
    super('the step has to wait');
    this.wait = wait;
  }
}

export interface EffectCall {
  readonly tool: Tool;
  readonly task: Task;
  readonly input: Record<string, unknown>;
  readonly place: CallPlace;
  readonly host: UnitHost;
  readonly policy: PolicyPort;
  readonly redactor: Redactor;
  readonly context: CallContext;
  /** The key that the author wrote, rendered. */
  readonly ownKey: string | undefined;
  /** Stores everything that was not recorded yet, with these events behind it. */
  readonly record: (events: readonly EventDraft[]) => Promise<void>;
  /** Events that go into the log with the task's own end. */
  readonly later: (event: EventDraft) => void;
  /** Makes a value ready for the log. */
  readonly toStored: (value: unknown) => Promise<StoredValue>;
}

/**
 * A write: judged, looked up, announced, called, and told. Whatever is found half done is settled before anything is sent
 * again; where nobody can know, a person is asked.
 */
export async function runEffect(call: EffectCall): Promise<ToolOutcome> {
  const { tool, task, input, host, place } = call;
  if (await host.isPaused()) throw new MustPark({ kind: 'hold', details: { reason: 'PAUSED', entity: place.entity } });
  const action = proposedAction(call);
  const scope = scopeOf(call);
  const judged = await call.policy.evaluate(action, { ...place });
  const entity = effectEntity(place.entity, (await earlierTries(call)) + 1);
  const record = (eventType: EventDraft['eventType'], payload: Record<string, unknown>): EventDraft =>
    draft(call, entity, eventType, call.redactor.redact(payload));
  const policyEvent = record('PolicyEffectEvaluated', {
    decision: judged.decision,
    actionDigest: action.digest,
    connector: action.connector,
    operation: action.operation,
    target: action.target,
    fields: [...action.fields],
    tier: action.tier,
    policies: [...judged.policies],
    ...(judged.revision === undefined ? {} : { revision: judged.revision }),
    ...(judged.reason === undefined ? {} : { reason: judged.reason }),
  });
  if (judged.decision === 'deny') {
    call.later(policyEvent);
    return failure('policy', 'POLICY_DENIED', judged.reason ?? 'The policy denies this action.');
  }
  if (judged.decision === 'needs_approval') {
    call.later(policyEvent);
    throw new MustPark({
      kind: 'approval',
      actionDigest: action.digest,
      details: { reason: 'APPROVAL', entity: place.entity, action: { ...action, fields: [...action.fields] } },
    });
  }
  const found = await settleEarlier(call, action, scope, record);
  if (found) {
    call.later(policyEvent);
    return found;
  }
  const { timeoutMs } = call.context;
  const from = performance.now();
  if (!(await host.ensureLease(timeoutMs + LEASE_MARGIN_MS))) {
    throw new AppError(LOST.code, LOST.message);
  }
  const settledBy = new Date(Date.now() + timeoutMs + LEASE_MARGIN_MS).toISOString();
  const attempted = record('EffectAttempted', {
    key: action.key,
    scope,
    connector: action.connector,
    operation: action.operation,
    target: action.target,
    actionDigest: action.digest,
    settledBy,
  });
  await faultPoint('effect.before-attempted');
  try {
    await call.record([policyEvent, attempted]);
  } catch (thrown) {
    if (!(thrown instanceof AppError) || thrown.code !== 'EFFECT_TAKEN') throw thrown;
    // Another run announced the same effect a moment ago: its receipt says how to go on.
    const other = await settleEarlier(call, action, scope, record);
    if (!other) throw new MustPark({ kind: 'timer', dueAt: inMillis(LOOK_AGAIN_MS), details: underWay(call) });
    call.later(policyEvent);
    return other;
  }
  await faultPoint('effect.after-attempted');
  const stopped = await stopBefore(call, timeoutMs - (performance.now() - from));
  if (stopped) {
    const error = {
      category: stopped.error.kind,
      code: stopped.error.code,
      message: stopped.error.message,
      retryable: false,
    };
    call.later(record('EffectFailed', { key: action.key, scope, error }));
    return stopped;
  }
  const outcome = await tool.call(input, { ...call.context, idempotencyKey: action.key });
  await faultPoint('effect.after-call');
  await tell(call, task, action, scope, outcome, record);
  return outcome;
}

/**
 * Writing down the attempt may have taken long. Nothing is sent after the call was stopped, nor under a lease that could end before
 * the call does: whoever finds the attempt counts on it.
 */
async function stopBefore({ context, host }: EffectCall, leftMs: number): Promise<Refusal | undefined> {
  if (!context.signal.aborted && (await host.ensureLease(Math.max(0, leftMs) + LEASE_MARGIN_MS))) {
    if (!context.signal.aborted) return undefined;
  }
  const { code, message } = context.signal.reason instanceof AppError ? context.signal.reason : LOST;
  if (code === 'LEASE_LOST') throw new AppError(code, message);
  return failure('cancelled', code, `Nothing was sent: ${message}`);
}

const LOST = { code: 'LEASE_LOST', message: 'The lease cannot be made long enough for the call.' } as const;

type Recorder = (eventType: EventDraft['eventType'], payload: Record<string, unknown>) => EventDraft;

async function tell(
  call: EffectCall,
  task: Task,
  action: EffectAction,
  scope: 'run' | 'tenant',
  outcome: ToolOutcome,
  record: Recorder,
): Promise<void> {
  const base = { key: action.key, scope };
  if (outcome.status === 'ok') {
    const reverse = task.effect?.reverse ?? call.tool.reverse?.(call.input, outcome.result);
    const result = await call.toStored(outcome.result);
    call.later(
      record('EffectSucceeded', {
        ...base,
        reversible: reverse !== undefined,
        ...(reverse === undefined ? {} : { reverse }),
        result,
      }),
    );
  } else if (outcome.error.unknown) {
    call.later(record('EffectUnknown', { ...base, reason: outcome.error.message }));
  } else {
    const { kind, code, message, retryable } = outcome.error;
    call.later(record('EffectFailed', { ...base, error: { category: kind, code, message, retryable } }));
  }
}

/** What an earlier attempt left behind. Undefined: the way is free. */
async function settleEarlier(
  call: EffectCall,
  action: EffectAction,
  scope: 'run' | 'tenant',
  record: Recorder,
): Promise<ToolOutcome | undefined> {
  const receipt = await call.host.findReceipt(action.key);
  if (!receipt || receipt.status === 'failed') return undefined;
  const base = { key: action.key, scope };
  if (receipt.status === 'succeeded') {
    const stored = receipt.details['result'] as StoredValue | undefined;
    call.later(record('EffectSucceeded', { ...base, cachedFrom: { runId: receipt.runId, path: receipt.path } }));
    return { status: 'ok', result: stored === undefined ? null : await loadValue(call.context.artifacts, stored) };
  }
  const settlesIn = receipt.settlesInMs ?? 0;
  if (receipt.status === 'attempted' && settlesIn > 0) {
    // It may be on the wire at this moment: nobody may ask or send before it is over. Another's outcome may come sooner.
    const isOwn = receipt.runId === call.place.runId && call.place.entity.startsWith(`${receipt.path}@`);
    const look = Math.min(Math.max(settlesIn / 4, LOOK_AGAIN_MS), 5000);
    const dueAt = inMillis(isOwn ? settlesIn + 10 : Math.min(settlesIn + 10, look));
    throw new MustPark({ kind: 'timer', dueAt, details: underWay(call) });
  }
  const wanted = call.task.effect?.onUnknown ?? (call.tool.reconcile ? 'reconcile' : 'retry');
  if (wanted === 'reconcile' && call.tool.reconcile) {
    const context = { ...call.context, idempotencyKey: action.key };
    const known = await call.tool.reconcile(call.input, context);
    if (known.found === 'happened') {
      const result = await call.toStored(known.result);
      call.later(record('EffectSucceeded', { ...base, reconciled: true, result }));
      return { status: 'ok', result: known.result };
    }
    if (known.found === 'absent') return undefined;
  }
  if (wanted !== 'ask' && call.tool.honoursKey?.(call.input) === true) return undefined;
  const answer = await answerOf(call, action.key);
  if (answer?.outcome === 'approved') return undefined;
  if (answer?.outcome === 'done') {
    const { result = { value: null }, by, reason } = answer;
    const said = { ...(by === undefined ? {} : { by }), ...(reason === undefined ? {} : { reason }) };
    call.later(record('EffectSucceeded', { ...base, reconciled: true, ...said, result }));
    return { status: 'ok', result: await loadValue(call.context.artifacts, result) };
  }
  call.later(
    record('EffectUnknown', { ...base, reason: 'Its outcome was lost, and the destination cannot be asked.' }),
  );
  const { operation, target } = action;
  const question = { reason: 'EFFECT_UNKNOWN', entity: call.place.entity, key: action.key, operation, target };
  throw new MustPark({ kind: 'approval', actionDigest: action.digest, details: call.redactor.redact(question) });
}

interface Answer {
  readonly outcome: string;
  readonly result?: StoredValue;
  readonly by?: string;
  readonly reason?: string;
}

/** What a person said of this very effect. An attempt that was made since then is not covered by it. */
async function answerOf({ host, place }: EffectCall, key: string): Promise<Answer | undefined> {
  let asked: string | undefined;
  let answer: Answer | undefined;
  for (const { eventType, entity, payload } of await host.recorded()) {
    if (eventType === 'WaitStarted') {
      const details = payload?.['details'] as Record<string, unknown> | undefined;
      if (details?.['reason'] === 'EFFECT_UNKNOWN' && details['entity'] === place.entity) asked = entity;
    } else if (eventType === 'WaitEnded' && entity === asked) answer = payload as unknown as Answer;
    else if (eventType === 'EffectAttempted' && payload?.['key'] === key) answer = undefined;
  }
  return answer;
}

const inMillis = (millis: number): string => new Date(Date.now() + millis).toISOString();
const underWay = ({ place }: EffectCall): Record<string, unknown> => ({
  reason: 'EFFECT_UNDER_WAY',
  entity: place.entity,
});

function proposedAction(call: EffectCall): EffectAction {
  const { tool, task, input, place, host, ownKey } = call;
  const proposed = tool.propose(input);
  const { rootRunId } = host.view.state.run;
  const own =
    ownKey ?? tool.effectKey?.(input, place) ?? defaultEffectKey(proposed.operation, proposed.target, place, input);
  const key = scopeOf(call) === 'run' ? `${rootRunId ?? place.runId}:${own}` : own;
  const tier = task.effect?.tier ?? 'med';
  const digest = sha256Hex(
    canonicalJson({ connector: tool.kind, ...proposed, fields: [...proposed.fields], key, tier, input }),
  );
  return { ...proposed, connector: tool.kind, key: key.slice(0, 1024), tier, digest };
}

function scopeOf({ task, ownKey }: EffectCall): 'run' | 'tenant' {
  return task.effect?.scope ?? (ownKey === undefined ? 'run' : 'tenant');
}

/** How often an earlier delivery of this very attempt came to its effect. */
async function earlierTries({ host, place }: EffectCall): Promise<number> {
  if (!host.isRedelivered) return 0;
  const tries = (await host.recorded()).filter(
    ({ eventType, entity }) =>
      eventType === 'PolicyEffectEvaluated' && (entity === place.entity || entity?.startsWith(`${place.entity}/`)),
  );
  return tries.length;
}

function draft(
  call: EffectCall,
  entity: string,
  eventType: EventDraft['eventType'],
  payload: Record<string, unknown>,
): EventDraft {
  const { stepId, attempt } = call.place;
  return { eventType, stepId, entity, logicalAttemptId: attempt, payload };
}

type Refusal = Extract<ToolOutcome, { status: 'error' }>;

function failure(kind: string, code: string, message: string): Refusal {
  return { status: 'error', error: { kind, code, message, retryable: false } };
}
