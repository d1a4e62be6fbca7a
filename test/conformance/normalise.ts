import type { RunEventRecord } from '../../src/contracts/envelope.ts';
import { parseEntity, stepNameOf, unitEntity } from '../../src/kernel/entity-path.ts';
import { canonicalJson } from '../../src/lib/canonical-json.ts';
import { sha256Hex } from '../../src/lib/hash.ts';

// A log as lines of text that are equal for two runs of one plan, whichever engine ran them. What is taken away:
//
// - Times, and which worker it was: the fields of TIMES become `<time>`. A field that is missing is still a difference.
// - Ids: the ids of the run and of its children become `<run>` and `<child>` wherever they stand; eventId, idempotencyKey, runSeq, persistedAt, emittedAt and
//   proofs are left out (the chain is verified elsewhere), and so is engineAttemptId. Fields of IDS become `<id>`.
// - The engine: engineRunRef and engineType become `<engine>`.
// - Interleaving: events are grouped by unit (the run, a signal, a step instance, a loop iteration), and the groups are
//   sorted by name. Within a unit order is kept: reordering, losing or adding an event of a unit changes a line.
//   What follows from other units says how many of their events came before it (`after`), so that an effect before its
//   cause is a difference too.
// - Instances (`count#2`) are numbered in the order in which branches got there. They are renamed by what caused them.

const TIMES = new Set([
  'startedAt',
  'completedAt',
  'dueAt',
  'until',
  'notBefore',
  'settledBy',
  'durationMs',
  'duration_ms',
  'elapsed_ms',
  'leaseOwner',
]);
const IDS = new Set(['childRunId', 'parentRunId', 'rootRunId', 'retryOf', 'actionDigest']);
const ENGINE = new Set(['engineRunRef', 'engineType']);
/** Fields of payloads that name a step instance, or an entity below one. */
const INSTANCES = new Set(['stepId', 'from', 'parentStepId', 'parentEntity']);
/** What the playbook's author made, in which nothing has these meanings. */
const DATA = new Set(['value', 'args', 'set', 'inputs', 'extracted', 'preview', 'parameters']);
/** Lists in the order in which independent branches came to their ends. */
const UNORDERED = new Set(['handledFailures']);

type Log = readonly RunEventRecord[];
interface Cause {
  readonly kind?: string;
  readonly arrivals?: readonly { readonly from: string; readonly arc: number }[];
}
type Names = ReadonlyMap<string, string>;

/** The lines of a log, unit by unit. */
export function normalise(log: Log): string[] {
  const causes = causesByInstance(log);
  const names = nameInstances(log, causes);
  const counts = new Map<string, number>();
  const sequential = sequentialLoops(log);
  const ids = idsOf(log);
  const units = new Map<string, string[]>();
  const seen = (unit: string): number => counts.get(unit) ?? 0;
  for (const [at, record] of log.entries()) {
    const unit = unitOf(record);
    const label = rename(unit, names);
    const lines = units.get(label) ?? [];
    units.set(label, lines);
    const after = followsFrom(record, seen(unit) === 0, causes, sequential).map((cause) =>
      typeof cause === 'string'
        ? `${rename(cause, names)}:${seen(cause)}`
        : `${log.slice(0, at).filter(cause).length} others`,
    );
    lines.push(
      [
        label,
        record.eventType,
        record.entity === undefined ? '' : rename(record.entity, names),
        `#${record.logicalAttemptId}`,
        canonicalJson(plain(record.payload ?? {}, ids, names)),
        after.length === 0 ? '' : `after ${after.sort().join(' ')}`,
      ]
        .filter(Boolean)
        .join(' '),
    );
    counts.set(unit, seen(unit) + 1);
  }
  const sorted = [...units.keys()].sort();
  return [headOf(log), ...sorted.flatMap((label) => units.get(label) as string[])];
}

/** Scope and plan stand on every record, and must be the same on all of them. */
function headOf(log: Log): string {
  const heads = log.map(({ tenantId, projectId, environmentId, planId, planVersion }) =>
    canonicalJson({ tenantId, projectId, environmentId, planId, planVersion }),
  );
  return [...new Set(heads)].join(' ');
}

/** Within a unit things happen one after the other. */
function unitOf({ stepId, entity }: RunEventRecord): string {
  if (stepId === undefined) return entity ?? 'RUN';
  return unitEntity(stepId, entity === undefined ? undefined : parseEntity(entity)?.iteration);
}

/** The units whose events an event follows from, or a test for those events where they are of many units. */
function followsFrom(
  { stepId, entity, eventType }: RunEventRecord,
  isFirst: boolean,
  causes: ReadonlyMap<string, Cause>,
  sequential: ReadonlySet<string>,
): (string | ((other: RunEventRecord) => boolean))[] {
  if (/^Run(Completed|Failed|Cancelled)$/.test(eventType)) return [isStep];
  if (eventType === 'LoopDone') return [(other) => other.stepId === stepId && unitOf(other) !== stepId];
  if (stepId === undefined || !isFirst) return [];
  const index = entity === undefined ? undefined : parseEntity(entity)?.iteration;
  if (index !== undefined) {
    return index > 0 && sequential.has(stepId) ? [stepId, unitEntity(stepId, index - 1)] : [stepId];
  }
  const cause = causes.get(stepId);
  if (cause?.kind === 'final') return [isStep];
  return [...new Set((cause?.arrivals ?? []).map(({ from }) => from))];
}

const isStep = ({ stepId }: RunEventRecord): boolean => stepId !== undefined;

function sequentialLoops(log: Log): Set<string> {
  const loops = log.filter(
    ({ eventType, payload }) => eventType === 'LoopStarted' && payload?.['mode'] === 'sequential',
  );
  return new Set(loops.map(({ stepId }) => stepId as string));
}

/** Admission is evaluated before a step is scheduled or skipped: the cause need not stand in the first event. */
function causesByInstance(log: Log): Map<string, Cause> {
  const causes = new Map<string, Cause>();
  for (const { stepId, payload } of log) {
    const cause = payload?.['cause'] as Cause | undefined;
    if (stepId !== undefined && cause !== undefined && !causes.has(stepId)) causes.set(stepId, cause);
  }
  return causes;
}

/**
 * A name for each instance that does not depend on when it was made: the step alone where there is one instance, else the
 * step and a digest of where its tokens came from. Instances of the same cause are told apart by their order.
 */
function nameInstances(log: Log, causes: ReadonlyMap<string, Cause>): Map<string, string> {
  const paths = new Map<string, string>();
  const taken = new Map<string, number>();
  const instances = new Map<string, number>();
  for (const { stepId } of log) {
    if (stepId === undefined || paths.has(stepId)) continue;
    const { kind = 'none', arrivals = [] } = causes.get(stepId) ?? {};
    const from = arrivals.map((arrival) => `${paths.get(arrival.from) ?? '?'}>${arrival.arc}`);
    const path = sha256Hex([stepNameOf(stepId), kind, ...from.sort()].join('\n'));
    const same = taken.get(path) ?? 0;
    taken.set(path, same + 1);
    paths.set(stepId, same === 0 ? path : sha256Hex(`${path}\n${same}`));
    const name = stepNameOf(stepId);
    instances.set(name, (instances.get(name) ?? 0) + 1);
  }
  return new Map(
    [...paths].map(([stepId, path]) => {
      const name = stepNameOf(stepId);
      return [stepId, instances.get(name) === 1 ? name : `${name}~${path.slice(0, 8)}`];
    }),
  );
}

function rename(path: string, names: Names): string {
  const slash = path.indexOf('/');
  const stepId = slash < 0 ? path : path.slice(0, slash);
  const name = names.get(stepId);
  return name === undefined ? path : `${name}${slash < 0 ? '' : path.slice(slash)}`;
}

type Ids = ReadonlyMap<string, '<run>' | '<child>'>;

function idsOf(log: Log): Ids {
  const children = log.flatMap(({ payload }) => (payload?.['childRunId'] as string | undefined) ?? []);
  return new Map([
    ...children.map((id) => [id, '<child>'] as const),
    ...log.map(({ runId }) => [runId, '<run>'] as const),
  ]);
}

function plain(value: unknown, ids: Ids, names: Names): unknown {
  if (typeof value === 'string') return withoutIds(value, ids);
  if (Array.isArray(value)) return value.map((each) => plain(each, ids, names));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, field]) => {
      if (TIMES.has(key)) return [key, '<time>'];
      if (IDS.has(key)) return [key, '<id>'];
      if (ENGINE.has(key)) return [key, '<engine>'];
      if (DATA.has(key)) return [key, withoutIds(canonicalJson(field), ids)];
      if (INSTANCES.has(key) && typeof field === 'string') return [key, rename(field, names)];
      const inner = plain(field, ids, names);
      return [key, UNORDERED.has(key) ? sorted(inner as unknown[]) : inner];
    }),
  );
}

function withoutIds(text: string, ids: Ids): string {
  return [...ids].reduce((rest, [id, word]) => rest.replaceAll(id, word), text);
}

const sorted = (list: readonly unknown[]): string[] => list.map((each) => canonicalJson(each)).sort();
