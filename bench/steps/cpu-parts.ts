import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { fileURLToPath } from 'node:url';

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  readonly children?: readonly number[];
}

interface Profile {
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Folders of the project and packages, by what they do for a step. The first that fits counts. */
const PARTS: readonly (readonly [RegExp, string])[] = [
  [/node_modules\/pg|node:(net|internal\/(streams|stream_base|net))/, 'driver and socket'],
  [/^src\/kernel\//, 'kernel: decide and fold'],
  [/^src\/(worker|tools)\//, 'step runner and tool'],
  [/^src\/(engines|runtime)\//, 'engine: leases, run-ahead, work'],
  [/^src\/(store|contracts|lib)\/|node:internal\/crypto|typebox/, 'log: check, hash and encode events'],
];

/** CPU microseconds of this process during some work, by what they were spent on. */
export async function cpuParts(work: () => Promise<void>): Promise<Record<string, number>> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: 250 });
  await session.post('Profiler.start');
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  const { profile } = (await session.post('Profiler.stop')) as { profile: Profile };
  session.disconnect();
  const parts = byPart(profile);
  // Samples are taken by the clock: on a machine that others use too they hold time in which this process did not run.
  const sampled = Object.values(parts).reduce((sum, micros) => sum + micros, 0);
  for (const name of Object.keys(parts)) parts[name]! *= (user + system) / sampled;
  return parts;
}

function byPart({ nodes, samples, timeDeltas }: Profile): Record<string, number> {
  const own = new Map<number, number>();
  for (const [i, id] of samples.entries()) own.set(id, (own.get(id) ?? 0) + timeDeltas[i]!);
  const partOfChild = new Map<number, string>();
  const parts: Record<string, number> = {};
  // Parents come before their children: what has no place of its own (a hash, a write) counts for whoever called it.
  for (const { id, callFrame, children = [] } of nodes) {
    const part = partOf(callFrame) ?? partOfChild.get(id) ?? 'node: promises, timers, turns';
    for (const child of children) partOfChild.set(child, part);
    const { functionName } = callFrame;
    if (functionName === '(idle)') continue;
    const name = functionName === '(garbage collector)' ? 'garbage collection' : part;
    parts[name] = (parts[name] ?? 0) + (own.get(id) ?? 0);
  }
  return parts;
}

function partOf({ url, lineNumber, functionName }: ProfileNode['callFrame']): string | undefined {
  // Compiled schemas have no file.
  if (url === '') return functionName.startsWith('check_') ? PARTS.at(-1)![1] : undefined;
  const place = url.startsWith('file:') && url.includes('/bench/out/process/') ? sourceOf(url, lineNumber) : url;
  return PARTS.find(([pattern]) => pattern.test(place))?.[1];
}

const FILES = new Map<string, readonly string[]>();

/** The source file of a line of the bundle, which names each of them in a comment before it. */
function sourceOf(url: string, line: number): string {
  const lines = FILES.get(url) ?? readFileSync(fileURLToPath(url), 'utf8').split('\n');
  FILES.set(url, lines);
  for (let at = line; at >= 0; at--) {
    const found = /^\/\/ ((?:src|bench)\/\S+\.ts)$/.exec(lines[at]!);
    if (found) return found[1]!;
  }
  return url;
}
