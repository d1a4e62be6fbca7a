import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, ROOT, runCli } from './cli.fixture.ts';

// Each test starts many processes, on a machine that may have other things to do.
vi.setConfig({ testTimeout: 120_000 });

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-shapes-'));
  const step = "  - {step: start, tool: {kind: shell, cmds: ['echo hi']}}\n";
  await writeFile(
    join(folder, 'hi.yaml'),
    `apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: hi, version: "1"}\nworkflow:\n${step}`,
  );
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

async function json(...words: string[]): Promise<unknown[]> {
  const { stdout, stderr } = await runCli([...words, '--json'], { cwd: folder, env: { DATABASE_URL: database.url } });
  expect(stderr, words.join(' ')).toBe('');
  const isLines = COMMANDS[words[0]!]!.json.startsWith('lines: ');
  return isLines
    ? stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
    : [JSON.parse(stdout)];
}

/** The fields that the documentation names, at the top of the n-th mapping of its text: `{a, b?: [c], d: {e}}` has a, b and d. */
function fieldsOf(text: string, mapping: number): { readonly name: string; readonly isOptional: boolean }[] {
  const tops: string[] = [];
  let depth = 0;
  for (const sign of text) {
    if (sign === '{' || sign === '[') depth++;
    if (depth === 1) {
      if (sign === '{') tops.push('');
      else if (tops.length > 0) tops[tops.length - 1] += sign;
    }
    if (sign === '}' || sign === ']') depth--;
  }
  return [...tops[mapping]!.matchAll(/(?:^|,) *(\w+)(\?)?/g)].map(([, name, mark]) => ({
    name: name!,
    isOptional: mark !== undefined,
  }));
}

function expectShape(command: string, value: unknown, mapping = 0): void {
  const documented = fieldsOf(COMMANDS[command]!.json, mapping);
  const found = Object.keys(value as object);
  expect(documented.length, command).toBeGreaterThan(0);
  for (const { name, isOptional } of documented) if (!isOptional) expect(found, `${command} ${name}`).toContain(name);
  const names = documented.map(({ name }) => name);
  expect(
    found.filter((name) => !names.includes(name)),
    `${command} has fields that are not documented`,
  ).toEqual([]);
}

test('what --json prints has the fields that the documentation names, and no others', async () => {
  const [run] = (await json('run', 'hi.yaml')) as [{ runId: string; steps: unknown[] }];
  expectShape('run', run);
  const { runId } = run;
  expectShape('run', (await json('run', 'hi.yaml', '--detach'))[0], 3);
  expectShape('pause', (await json('pause', 'latest'))[0]);
  expectShape('cancel', (await json('cancel', 'latest', '--detach'))[0]);
  expectShape('retry', (await json('retry', 'latest', '--detach'))[0]);
  expectShape('skip-step', (await json('skip-step', 'latest', 'start'))[0]);
  const [listed] = (await json('runs', '--limit', '1')) as [{ runs: unknown[] }];
  expectShape('runs', listed);
  expectShape('runs', listed.runs[0], 1);
  expectShape('status', (await json('status', runId))[0]);
  for (const line of await json('logs', runId)) expectShape('logs', line);
  expectShape('replay', (await json('replay', runId))[0]);
  const [differs] = (await json('diff', runId, runId)) as [{ a: unknown }];
  expectShape('diff', differs);
  expectShape('verify', (await json('verify', runId))[0]);
  expectShape('init', (await json('init', 'made'))[0]);
  expectShape('compile', (await json('compile', 'hi.yaml'))[0]);
  expectShape('compile', (await json('compile', 'hi.yaml', '--engine', 'temporal'))[0]);
  expectShape('migrate', (await json('migrate'))[0]);
  expectShape('migrate', (await json('migrate', '--print'))[0], 1);
  expectShape('doctor', (await json('doctor'))[0]);
  expectShape('completion', (await json('completion', 'fish'))[0]);
  expectShape('version', (await json('version'))[0]);
  expect(await json('result', runId, 'start')).toMatchObject([{ exit_code: 0 }]);
});

test('a run that failed has the fields of its documentation as well, and so has each of its steps', async () => {
  const { stdout } = await runCli(['run', join(ROOT, 'examples/secrets.yaml'), '--json'], {
    cwd: folder,
    env: { DATABASE_URL: database.url },
  });
  const run = JSON.parse(stdout) as { error: Record<string, unknown>; steps: Record<string, unknown>[] };
  expectShape('run', run);
  const { json: text } = COMMANDS['run']!;
  const allowed = (pattern: RegExp): string[] => fieldsOf(pattern.exec(text)![1]!, 0).map(({ name }) => name);
  expect(allowed(/error\?: (\{[^}]*\})/)).toEqual(expect.arrayContaining(Object.keys(run.error)));
  for (const step of run.steps)
    expect(allowed(/steps: \[(\{.*?\}\})\]/)).toEqual(expect.arrayContaining(Object.keys(step)));
});
