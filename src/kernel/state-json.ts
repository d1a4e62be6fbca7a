import { AppError } from '../contracts/errors.ts';
import { VersionedMap } from '../lib/versioned-map.ts';
import { isObject } from './payload-reader.ts';
import type { LoopState, NameState, Names, RunState, StepState, Token, WaitState } from './state.ts';
import { copyStep } from './step-state.ts';
import { copyState } from './work.ts';

/** Raised when the shape below changes: a saved state of another version is folded again from the log. */
const VERSION = 1;

const MAPS = ['open', 'done', 'unrouted', 'names', 'tokens', 'loops', 'waits', 'signals'] as const;

export type StateJson = Readonly<Record<string, unknown>>;

/** The whole state as JSON, so that a fold can stop here and go on elsewhere exactly as if it had not stopped. */
export function toJson(state: RunState): StateJson {
  const { retention, open, done, unrouted, names, tokens, loops, waits, signals, ...plain } = state;
  const maps = { open, done, unrouted, names, tokens, waits, signals };
  return {
    version: VERSION,
    ...plain,
    erasedSeq: state.erasedSeq ?? null,
    lastResult: state.lastResult ?? null,
    retention: { ...retention, results: namesToJson(retention.results), lineage: namesToJson(retention.lineage) },
    ...Object.fromEntries(
      Object.entries(maps).map(([name, map]) => [name, entriesOf(map as VersionedMap<string, unknown>)]),
    ),
    loops: entriesOf(loops).map(([stepId, loop]) => [
      stepId,
      { ...loop, open: entriesOf(loop.open), carried: [...loop.carried].sort((a, b) => a - b) },
    ]),
  };
}

/** The inverse. Anything that this version did not write answers SCHEMA_VALIDATION_FAILED: fold the log instead. */
export function fromJson(json: unknown): RunState {
  if (!isObject(json) || json['version'] !== VERSION || !isObject(json['retention'])) throw notOurs();
  for (const name of MAPS) if (!Array.isArray(json[name])) throw notOurs();
  const { version: _version, retention, erasedSeq, lastResult, ...rest } = json;
  const { keepFinished, results, lineage } = retention as Record<string, unknown>;
  const loops = (rest['loops'] as [string, Record<string, unknown>][]).map(([stepId, loop]): [string, LoopState] => [
    stepId,
    {
      ...(loop as unknown as LoopState),
      open: VersionedMap.from(loop['open'] as [number, never][]),
      carried: new Set(loop['carried'] as number[]),
    },
  ]);
  const steps = (name: 'open' | 'done') =>
    VersionedMap.from(
      (rest[name] as [string, StepState][]).map(([id, step]): [string, StepState] => [id, copyStep(step)]),
    );
  // Copied into the shapes that the fold makes: it is fast only while all states have one shape.
  return copyState({
    ...(rest as unknown as RunState),
    open: steps('open'),
    done: steps('done'),
    unrouted: VersionedMap.from(rest['unrouted'] as [string, true][]),
    names: VersionedMap.from(
      (rest['names'] as [string, NameState][]).map(([name, { instances, live, finished }]): [string, NameState] => [
        name,
        { instances, live, finished },
      ]),
    ),
    tokens: VersionedMap.from(
      (rest['tokens'] as [string, Token[]][]).map(([name, tokens]): [string, Token[]] => [
        name,
        tokens.map(({ to, from, arc, boundary, args, lineage }) => ({ to, from, arc, boundary, args, lineage })),
      ]),
    ),
    loops: VersionedMap.from(loops),
    waits: VersionedMap.from(rest['waits'] as [string, WaitState][]),
    signals: VersionedMap.from(rest['signals'] as [string, 'accepted' | 'rejected'][]),
    erasedSeq: (erasedSeq ?? undefined) as number | undefined,
    lastResult: (lastResult ?? undefined) as RunState['lastResult'],
    retention: {
      keepFinished: keepFinished === true,
      results: namesFromJson(results),
      lineage: namesFromJson(lineage),
    },
  });
}

function entriesOf<K extends string | number, V>(map: VersionedMap<K, V>): [K, V][] {
  return map.entries().sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

function namesToJson(names: Names): unknown {
  return typeof names === 'string' ? names : [...names].sort();
}

function namesFromJson(value: unknown): Names {
  if (Array.isArray(value)) return new Set(value as string[]);
  return value === 'all' ? 'all' : 'none';
}

function notOurs(): AppError {
  return new AppError('SCHEMA_VALIDATION_FAILED', 'The saved state is not of this version; fold the log instead.');
}
