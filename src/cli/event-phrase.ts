import type { ErrorInfo, StoredValue } from '../contracts/values.ts';
import { duration } from './terminal.ts';

type Payload = Readonly<Record<string, unknown>>;

/** What an event says, in the few words that a line has room for: what matters most comes first. */
export function eventPhrase(eventType: string, payload: Payload): string {
  const own = PHRASES[eventType]?.(payload) ?? [];
  const error = errorText(payload['error'] ?? (payload['failure'] as Payload | undefined)?.['error']);
  const { attempt, attempts, durationMs, reason } = payload;
  const words = [
    ...own,
    error,
    typeof attempt === 'number' && attempt > 1 && `try ${attempt}`,
    typeof attempts === 'number' && attempts > 1 && `${attempts} tries`,
    typeof durationMs === 'number' && duration(durationMs),
    error === undefined && storedText(payload['result']),
    typeof reason === 'string' && reason,
  ];
  return words.filter((word) => typeof word === 'string' && word !== '').join('  ');
}

type Words = readonly (string | false | undefined)[];

const text = (value: unknown): string | undefined => (value === undefined ? undefined : String(value));
const labelled = (label: string, value: unknown): string | undefined =>
  value === undefined ? undefined : `${label} ${String(value)}`;
const keysOf = (value: unknown): string => Object.keys((value as Payload | undefined) ?? {}).join(', ');
const clock = (value: unknown): string | undefined =>
  typeof value === 'string' ? `until ${value.slice(11, 19)} UTC` : undefined;
const planOf = ({ planRef }: Payload): string | undefined => {
  const { planId, planVersion } = (planRef ?? {}) as { planId?: string; planVersion?: string };
  return planId && `${planId} ${planVersion}`;
};
const effectOf = ({ connector, operation, target }: Payload): string =>
  [connector, operation, target].filter((word) => word !== undefined).join(' ');
const signalOf = ({ signalType, stepId, by, code }: Payload): Words => [
  text(signalType),
  text(stepId),
  labelled('by', by),
  text(code),
];

/** Beside what every payload may have: error, attempt, duration, result and reason. */
const PHRASES: Readonly<Record<string, (payload: Payload) => Words>> = {
  PlaybookExecutionRequested: (payload) => [
    planOf(payload),
    labelled('retry of', (payload['retryOf'] as string | undefined)?.slice(0, 8)),
    labelled('input', storedText(payload['workload'])),
  ],
  PlaybookRequestEvaluated: ({ decision, gate }) => [text(decision), gate !== undefined && `waits for ${String(gate)}`],
  RunStarted: ({ engineType }) => [labelled('on', engineType)],
  RunApproved: ({ approvedBy }) => [labelled('by', approvedBy)],
  RunPaused: ({ by }) => [labelled('by', by)],
  RunResumed: ({ by }) => [labelled('by', by)],
  RunCancelled: ({ by }) => [labelled('by', by)],
  RunFailed: ({ rootCause }) => [labelled('in', (rootCause as Payload | undefined)?.['stepId'])],
  AlertRaised: ({ severity, code, message }) => [text(severity), `${String(code)}: ${String(message)}`],
  PayloadErased: ({ records }) => [
    `events ${((records ?? []) as { runSeq: number }[]).map(({ runSeq }) => runSeq).join(', ')}`,
  ],
  SignalAccepted: signalOf,
  SignalRejected: signalOf,
  StepScheduled: ({ tool, cause }) => [text(tool), causeText(cause)],
  StepDelayed: ({ until }) => [clock(until)],
  StepCarried: ({ status, from }) => [
    text(status),
    labelled('from run', (from as Payload | undefined)?.['runId']?.toString().slice(0, 8)),
  ],
  LoopStarted: ({ mode, count, maxInFlight }) => [
    labelled('items:', count),
    mode === 'parallel' ? `parallel, ${String(maxInFlight ?? 'any number')} at once` : text(mode),
  ],
  LoopDone: ({ count, failed }) => [`items: ${String(count)}`, Number(failed) > 0 && `${String(failed)} failed`],
  TaskStarted: ({ tool, operation, effect }) => [text(tool), text(operation), text(effect)],
  PolicyAdmitEvaluated: ({ allow, matchedRuleIndex }) => [allow ? 'admitted' : 'refused', ruleText(matchedRuleIndex)],
  PolicyTaskEvaluated: ({ action, matchedRuleIndex }) => {
    const { do: what, to } = (action ?? {}) as { do?: string; to?: string };
    return [to === undefined ? what : `${what} to ${to}`, ruleText(matchedRuleIndex)];
  },
  PolicyEffectEvaluated: (payload) => [text(payload['decision']), effectOf(payload)],
  NextEvaluated: ({ selected, boundary }) => {
    const steps = ((selected ?? []) as { step: string }[]).map(({ step }) => step);
    return [steps.length === 0 ? 'to no step' : `to ${steps.join(', ')}`, `after ${String(boundary)}`];
  },
  WaitStarted: ({ kind, dueAt, childRunId }) => [
    labelled('for', kind),
    text((childRunId as string | undefined)?.slice(0, 8)),
    clock(dueAt),
  ],
  WaitEnded: ({ kind, outcome, by }) => [text(kind), text(outcome), labelled('by', by)],
  CtxPatched: ({ set }) => [`ctx.${keysOf(set).replaceAll(', ', ', ctx.')}`],
  ResultManifestUpdated: ({ parts }) => [labelled('parts:', parts)],
  EffectAttempted: (payload) => [effectOf(payload)],
  EffectSucceeded: ({ reconciled, by, cachedFrom }) => [
    cachedFrom !== undefined &&
      `not sent again: receipt of run ${String((cachedFrom as Payload)['runId']).slice(0, 8)}`,
    reconciled === true && 'found out afterwards',
    labelled('by', by),
  ],
  EffectUnknown: () => ['it may have happened'],
};

const ruleText = (index: unknown): string => (typeof index === 'number' ? `rule ${index + 1}` : 'no rule matched');

function causeText(cause: unknown): string | undefined {
  const { kind, arrivals = [] } = (cause ?? {}) as { kind?: string; arrivals?: { from: string }[] };
  if (kind !== 'arc') return kind === undefined || kind === 'entry' ? undefined : `because of ${kind}`;
  return `after ${[...new Set(arrivals.map(({ from }) => from))].join(', ')}`;
}

function errorText(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { code, message } = error as ErrorInfo;
  return `${code}: ${message}`;
}

function storedText(stored: unknown): string | undefined {
  if (typeof stored !== 'object' || stored === null) return undefined;
  const value = stored as StoredValue;
  if (!('value' in value)) return `in ${value.ref.uri}`;
  if (value.value === null) return undefined;
  return typeof value.value === 'string' ? value.value : JSON.stringify(value.value);
}
