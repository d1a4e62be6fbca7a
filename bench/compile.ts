import { compileSync } from '../src/compiler/compile.ts';
import { parsePlan } from '../src/compiler/parse-plan.ts';
import type { BenchResult } from './fold.ts';

/** A step as people write them: a call with a retry rule, a statement, a condition on the arc. */
function step(i: number, next: string): string {
  return `  - step: step_${i}
    desc: Fetches and stores item ${i}
    tool:
      - name: get
        kind: http
        method: GET
        url: "{{ workload.api }}/items/${i}"
        spec:
          timeout: 30
          policy:
            rules:
              - when: "{{ outcome.status == 'error' and outcome.error.retryable }}"
                then: {do: retry, attempts: 3, backoff: exponential, delay: 1}
              - else: {then: {do: continue, set: {ctx.last: "{{ outcome.data.id }}"}}}
      - name: store
        kind: postgres
        auth: pg
        command: INSERT INTO items VALUES ({{ get.data.id }}, ${i})
    next:
      arcs: [{step: ${next}, when: "{{ event.name == 'step.done' }}"}]
`;
}

function playbook(steps: number): string {
  const head =
    'apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench}\nworkload: {api: https://api.test}\nworkflow:\n';
  const body = Array.from({ length: steps }, (_, i) => step(i, i + 1 < steps ? `step_${i + 1}` : 'end')).join('');
  return `${head}${body}  - {step: end, tool: {kind: noop}}\n`;
}

function milliseconds(work: () => void): number {
  const before = performance.now();
  work();
  return performance.now() - before;
}

export async function compileBench(options: { readonly quick?: boolean } = {}): Promise<BenchResult[]> {
  const text = playbook(1_000);
  const rounds = options.quick ? 3 : 7;
  const compile = () => {
    const result = compileSync({ text, file: 'bench.yaml' });
    if (!result.ok) throw new Error(result.problems[0]!.message);
    return result;
  };
  // The first one is what a command line pays, the median what a server does.
  const first = milliseconds(compile);
  const times = Array.from({ length: rounds }, () => milliseconds(compile)).sort((a, b) => a - b);
  const { json, sha256 } = compile();
  const parse = Array.from({ length: rounds }, () => milliseconds(() => parsePlan(json, { sha256 }))).sort(
    (a, b) => a - b,
  );
  return [
    { name: 'compile 1,000 steps, first time', value: Math.round(first), unit: 'ms' },
    { name: 'compile 1,000 steps', value: Math.round(times[times.length >> 1]!), unit: 'ms' },
    { name: 'check a plan of 1,000 steps', value: Math.round(parse[parse.length >> 1]!), unit: 'ms' },
    { name: 'playbook of 1,000 steps', value: Math.round(text.length / 1024), unit: 'KiB' },
  ];
}
