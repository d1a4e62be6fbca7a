import { readdirSync, readFileSync } from 'node:fs';

/** Ticks of the kernel's accounting; fixed on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/**
 * CPU seconds that these processes and everything under them have used, children that ended included. Undefined where
 * the system does not tell.
 */
export function cpuSeconds(roots: readonly number[]): number | undefined {
  if (process.platform !== 'linux') return undefined;
  const children = new Map<number, number[]>();
  const ticks = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    let text: string;
    try {
      text = readFileSync(`/proc/${name}/stat`, 'utf8');
    } catch {
      continue;
    }
    // The name of a program may hold spaces and parentheses.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const pid = Number(name);
    const parent = Number(fields[1]);
    children.set(parent, [...(children.get(parent) ?? []), pid]);
    ticks.set(pid, Number(fields[11]) + Number(fields[12]) + Number(fields[13]) + Number(fields[14]));
  }
  const left = [...roots];
  let sum = 0;
  for (let pid = left.pop(); pid !== undefined; pid = left.pop()) {
    sum += ticks.get(pid) ?? 0;
    left.push(...(children.get(pid) ?? []));
  }
  return sum / TICKS_PER_SECOND;
}
