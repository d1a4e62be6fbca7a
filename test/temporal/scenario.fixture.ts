import { readFileSync } from 'node:fs';

const RETRY = 'spec: {policy: {failure: {retry: {attempts: 8, delay: 0.2, backoff: fixed}}}}';

/** Reads, writes, a loop of writes, branches and a join. Every write leaves a line in the file. */
export function scenario(
  file: string,
  options: { readonly retries?: boolean; readonly delayMs?: number } = {},
): string {
  const { retries = false, delayMs = 20 } = options;
  const policy = retries ? RETRY : 'spec: {}';
  return `apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: kills, version: "1"}
workflow:
- {step: start, ${policy}, tool: {kind: noop, result: 1}, next: {arcs: [{step: pay}]}}
- step: pay
  ${policy}
  tool:
    - {name: read, kind: probe, file: ${file}.reads, label: read}
    - {name: write, kind: effect, file: ${file}, label: pay, delay_ms: ${delayMs}, result: paid, spec: {timeout: 2}}
  next: {arcs: [{step: many}]}
- step: many
  ${policy}
  loop: {in: "{{ [0, 1, 2, 3] }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: effect, file: ${file}, label: "item-{{ iter.n }}", delay_ms: ${delayMs}, spec: {timeout: 2}}
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
- {step: left, ${policy}, tool: {kind: noop, result: 2}, next: {arcs: [{step: both}]}}
- {step: right, ${policy}, tool: {kind: noop, result: 3}, next: {arcs: [{step: both}]}}
- {step: both, ${policy}, join: all, tool: {kind: noop, result: "{{ left + right + (many | length) }}"}}
`;
}

export const TOTAL = 9;
export const EFFECTS: Readonly<Record<string, number>> = {
  pay: 1,
  'item-0': 1,
  'item-1': 1,
  'item-2': 1,
  'item-3': 1,
};

/** What happened in the world. */
export function countEffects(file: string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const line of readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
    const label = line.split(' ', 1)[0] as string;
    counts[label] = (counts[label] ?? 0) + 1;
  }
  return counts;
}
