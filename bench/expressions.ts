import { compileTemplate } from '../src/kernel/expressions/compile-template.ts';

export interface BenchResult {
  readonly name: string;
  readonly opsPerSecond: number;
}

const scope = {
  event: { name: 'step.done' },
  workload: { host: 'example.org' },
  ctx: { total: 3, rows: Array.from({ length: 100 }, (_, id) => ({ id, status: id % 2 === 0 ? 'ok' : 'failed' })) },
};

const TEMPLATES: Readonly<Record<string, string>> = {
  'static text': 'no template here',
  'a condition': "{{ event.name == 'step.done' }}",
  'a sum': '{{ ctx.total + 1 }}',
  'a whole list by reference': '{{ ctx.rows }}',
  'a default': "{{ ctx.missing | default('x') }}",
  'a text with two values': 'https://{{ workload.host }}/items?after={{ ctx.total }}',
  'a list of names': "{{ event.name in ['step.failed', 'step.done'] and ctx.total > 2 }}",
  'selectattr, map and sum over 100 rows':
    "{{ ctx.rows | selectattr('status', 'eq', 'ok') | map(attribute='id') | sum }}",
  'a loop over 100 rows': '{% for row in ctx.rows %}{{ row.id }},{% endfor %}',
};

/** Evaluations per second of compiled templates, and compilations per second of one. */
export async function benchExpressions(millisecondsEach = 300): Promise<BenchResult[]> {
  const results: BenchResult[] = [];
  for (const [name, source] of Object.entries(TEMPLATES)) {
    const template = compileTemplate(source);
    results.push({ name: `evaluate ${name}`, opsPerSecond: rate(() => template.evaluate(scope), millisecondsEach) });
  }
  let serial = 0;
  const compile = () => compileTemplate(`{{ event.name == 'step.done' and ctx.total > ${serial++} }}`);
  results.push({ name: 'compile a condition', opsPerSecond: rate(compile, millisecondsEach) });
  return results;
}

/** Calls per second, measured after the same time of warming up. */
function rate(work: () => unknown, milliseconds: number): number {
  run(work, milliseconds);
  return Math.round(run(work, milliseconds));
}

function run(work: () => unknown, milliseconds: number): number {
  const start = performance.now();
  let calls = 0;
  let elapsed = 0;
  while (elapsed < milliseconds) {
    for (let i = 0; i < 100; i++) work();
    calls += 100;
    elapsed = performance.now() - start;
  }
  return (calls / elapsed) * 1000;
}
