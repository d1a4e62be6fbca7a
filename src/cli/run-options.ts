import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import { closestName } from '../lib/closest-name.ts';
import { readInput } from '../runtime/playbook-files.ts';
import type { Arguments } from './parse-command.ts';

/** The workload of --input and --set; the latter wins. */
export function workloadOf(args: Arguments): Record<string, unknown> | undefined {
  const file = args.text('input');
  const sets = args.list('set');
  if (file === undefined && sets.length === 0) return undefined;
  const workload = file === undefined ? {} : readInput(file);
  for (const text of sets) assign(workload, text);
  return workload;
}

/** Keys of --set that the workload of the playbook does not have, and that it does not use either: mostly slips of the hand. */
export function unknownSets(args: Arguments, plan: Plan): string[] {
  const known = Object.keys(plan.workload ?? {});
  if (known.length === 0) return [];
  const text = JSON.stringify(plan);
  const keys = new Set(args.list('set').map((set) => set.split(/[.=]/)[0]!));
  return [...keys]
    .filter((key) => !known.includes(key) && !isUsed(text, key))
    .map((key) => {
      const near = closestName(key, known);
      const advice = near ? `; did you mean '${near}'?` : `; it has ${known.join(', ')}.`;
      return `--set ${key}: the workload of the playbook has no '${key}'${advice}`;
    });
}

/** As `workload.key`, or between brackets with quotes of either kind. */
function isUsed(text: string, key: string): boolean {
  const name = key.replace(/[^\w]/g, '\\$&');
  return new RegExp(`workload(?:\\.${name}(?!\\w)|\\[(?:'|\\\\")${name}(?:'|\\\\"))`).test(text);
}

function assign(workload: Record<string, unknown>, text: string): void {
  const at = text.indexOf('=');
  const path = text.slice(0, Math.max(at, 0)).split('.');
  if (at < 1 || path.some((key) => key === '' || key === '__proto__'))
    throw new AppError('USAGE', `--set takes NAME=VALUE, not '${text}'.`);
  let inner = workload;
  for (const key of path.slice(0, -1)) {
    const next = Object.hasOwn(inner, key) ? inner[key] : undefined;
    const isObject = typeof next === 'object' && next !== null && !Array.isArray(next);
    const child = isObject ? (next as Record<string, unknown>) : {};
    inner[key] = child;
    inner = child;
  }
  inner[path.at(-1)!] = readValue(text.slice(at + 1));
}

/** What reads as JSON is that; everything else is the text itself. */
function readValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
