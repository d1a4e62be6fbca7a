import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, ROOT, runCli } from './cli.fixture.ts';

interface Expected {
  readonly args?: readonly string[];
  readonly result: unknown;
  readonly steps: Readonly<Record<string, string>>;
}

/** What each example gives; a file that is not here fails the last test. */
const EXAMPLES: Readonly<Record<string, readonly Expected[]>> = {
  'hello.yaml': [
    { result: 'HELLO, WORLD!', steps: { start: 'done', shout: 'done' } },
    { args: ['--set', 'name=Ada'], result: 'HELLO, ADA!', steps: { start: 'done', shout: 'done' } },
  ],
  'branches.yaml': [
    { result: '1200 needs a second look', steps: { start: 'done', large: 'done' } },
    { args: ['--set', 'amount=50'], result: '50 is fine', steps: { start: 'done', small: 'done' } },
  ],
  'fan-out.yaml': [{ result: 120, steps: { start: 'done', double: 'done', square: 'done', sum: 'done' } }],
  'cycle.yaml': [
    {
      result: '3 turns',
      steps: { start: 'done', count: 'done', 'count#2': 'done', 'count#3': 'done', end: 'done' },
    },
  ],
  'parallel-loop.yaml': [{ result: { count: 8, letters: 34 }, steps: { start: 'done', summary: 'done' } }],
  'sub-playbook.yaml': [{ result: 'The area is 42.', steps: { start: 'done', report: 'done' } }],
  'shared/area.yaml': [{ result: { area: 6 }, steps: { multiply: 'done' } }],
  'best-effort.yaml': [
    { result: '1 of 3 parts is missing, the rest was delivered', steps: { start: 'done', repair: 'done' } },
  ],
  'handled-failure.yaml': [
    { result: '12 cannot be divided by 0', steps: { start: 'failed', apologise: 'done' } },
    { args: ['--set', 'divisor=4'], result: 'the answer is 3', steps: { start: 'done', report: 'done' } },
  ],
  'admission.yaml': [
    {
      result: 'not deployed: dev is not prod',
      steps: { start: 'done', deploy: 'skipped', explain: 'done' },
    },
    { args: ['--set', 'environment=prod'], result: 'deployed', steps: { start: 'done', deploy: 'done' } },
  ],
  'workbook.yaml': [{ result: 2, steps: { start: 'done', first: 'done', second: 'done' } }],
  'shell.yaml': [{ result: 'ledger', steps: { start: 'done' } }],
  'retry.yaml': [{ result: 'worked at try 3', steps: { start: 'done', end: 'done' } }],
};

let database: TestDatabase;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const cases = Object.entries(EXAMPLES).flatMap(([file, runs]) => runs.map((expected) => ({ file, ...expected })));

test.each(cases)('examples/$file $args runs as it says', async ({ file, args = [], result, steps }) => {
  const env = { DATABASE_URL: database.url };
  const { code, stdout, stderr } = await runCli(['run', `examples/${file}`, ...args, '--json'], { env });
  expect(stderr).toBe('');
  const said = JSON.parse(stdout) as { status: string; result: unknown; steps: { stepId: string; status: string }[] };
  expect(said).toMatchObject({ status: 'COMPLETED', result });
  expect(Object.fromEntries(said.steps.map(({ stepId, status }) => [stepId, status]))).toEqual(steps);
  expect(code).toBe(0);
});

test('every example is executed here', () => {
  const files = readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' });
  const playbooks = files.filter((file) => /\.ya?ml$/.test(file)).sort();
  expect(playbooks).toEqual(Object.keys(EXAMPLES).sort());
});
