import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, ROOT } from './cli.fixture.ts';
import { type Shell, shellWithCli } from './shell.fixture.ts';

// Each of these is a process of its own, on a machine that may have other things to do.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 240_000 });

interface Expected {
  readonly result: unknown;
  readonly steps: Readonly<Record<string, string>>;
}

/** What each command in the head of an example gives, in order. A file that is not here fails the last test. */
const EXAMPLES: Readonly<Record<string, readonly Expected[]>> = {
  'hello.yaml': [
    { result: 'HELLO, WORLD!', steps: { start: 'done', shout: 'done' } },
    { result: 'HELLO, ADA!', steps: { start: 'done', shout: 'done' } },
  ],
  'branches.yaml': [
    { result: '1200 needs a second look', steps: { start: 'done', large: 'done' } },
    { result: '50 is fine', steps: { start: 'done', small: 'done' } },
  ],
  'fan-out.yaml': [{ result: 120, steps: { start: 'done', double: 'done', square: 'done', sum: 'done' } }],
  'cycle.yaml': [
    {
      result: '3 turns',
      steps: { start: 'done', count: 'done', 'count#2': 'done', 'count#3': 'done', end: 'done' },
    },
    {
      result: '5 turns',
      steps: {
        start: 'done',
        count: 'done',
        'count#2': 'done',
        'count#3': 'done',
        'count#4': 'done',
        'count#5': 'done',
        end: 'done',
      },
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
    { result: 'the answer is 3', steps: { start: 'done', report: 'done' } },
  ],
  'admission.yaml': [
    {
      result: 'not deployed: dev is not prod',
      steps: { start: 'done', deploy: 'skipped', explain: 'done' },
    },
    { result: 'deployed', steps: { start: 'done', deploy: 'done' } },
  ],
  'workbook.yaml': [{ result: 2, steps: { start: 'done', first: 'done', second: 'done' } }],
  'shell.yaml': [{ result: 'ledger', steps: { start: 'done' } }],
  'pagination.yaml': [{ result: '25 items, the last one is item-25', steps: { start: 'done', report: 'done' } }],
  'large-result.yaml': [
    {
      result: { bytes: 144297, rows: 5000, stored: true, sum: 41679167500 },
      steps: { start: 'done', sum: 'done', report: 'done' },
    },
  ],
  'transforms.yaml': [{ result: ['1. Ada 140.00', '2. Bob 80.00'], steps: { start: 'done', rank: 'done' } }],
  'secrets.yaml': [
    { result: 'the token is [redacted], it has 15 characters', steps: { start: 'done', report: 'done' } },
  ],
  'postgres-etl.yaml': [
    {
      result: '2 countries, 42.6 with tax',
      steps: { start: 'done', extract: 'done', transform: 'done', load: 'done', report: 'done' },
    },
  ],
  'custom-tool/publish.yaml': [
    { result: '/posts/creme-brulee-and-how-to-prove-it', steps: { start: 'done', report: 'done' } },
  ],
  'retry.yaml': [{ result: 'worked at try 3', steps: { start: 'done', end: 'done' } }],
};

let database: TestDatabase;
let shop: TestDatabase;
let pages: ChildProcess;
let pagesUrl: string;
let folder: string;
let shell: Shell;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  shop = await createTestDatabase({ empty: true });
  folder = await mkdtemp(join(tmpdir(), 'runledger-examples-'));
  shell = shellWithCli(folder, { DATABASE_URL: database.url, RUNLEDGER_FOLDER: join(folder, '.runledger') });
  pages = spawn(process.execPath, [join(ROOT, 'examples/servers/pages.mjs'), '0'], { stdio: ['ignore', 'pipe', 2] });
  const [line] = await once(createInterface({ input: pages.stdout! }), 'line');
  pagesUrl = new URL('/', line as string).origin;
});
afterAll(async () => {
  pages?.kill();
  await database?.drop();
  await shop?.drop();
  await rm(folder, { recursive: true, force: true });
});

/** The lines of the head that are set in: what a reader types. */
function commandsOf(file: string): string[] {
  const text = readFileSync(join(ROOT, 'examples', file), 'utf8');
  const head = text.slice(0, text.indexOf('apiVersion:'));
  return [...head.matchAll(/^# {3}(.*)$/gm)].map((match) => match[1]!);
}

const runsOf = (file: string): string[] => commandsOf(file).filter((command) => command.includes('runledger run'));
const cases = Object.entries(EXAMPLES).flatMap(([file, runs]) =>
  runs.map((expected, i) => ({ command: runsOf(file)[i] ?? `nothing in the head of ${file}`, ...expected })),
);

/** What the reader has to bring along is served here. */
function withServers(command: string): string {
  const shopUrl = command.replace('postgres://localhost/shop', `'${shop.url}'`);
  return command.includes('pagination.yaml') ? `${command} --set base=${pagesUrl}` : shopUrl;
}

test.each(cases)('$command', async ({ command, result, steps }) => {
  const { code, stdout, output } = await shell.run(`${withServers(command)} --json`, { cwd: ROOT });
  expect(output).toBe(stdout);
  const said = JSON.parse(stdout) as { status: string; result: unknown; steps: { stepId: string; status: string }[] };
  expect(said).toMatchObject({ status: 'COMPLETED', result });
  expect(Object.fromEntries(said.steps.map(({ stepId, status }) => [stepId, status]))).toEqual(steps);
  expect(code).toBe(0);
});

test('the secret of the example is nowhere in its log', async () => {
  const [command] = runsOf('secrets.yaml');
  const { stdout } = await shell.run(`${command} --json && npx runledger events latest --json`, { cwd: ROOT });
  expect(stdout).toContain('[redacted]');
  expect(command).toContain('s3cret-and-long');
  expect(stdout).not.toContain('s3cret-and-long');
});

test('every example is executed here, with every command of its head', () => {
  const files = readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' });
  const playbooks = files.filter((file) => /\.ya?ml$/.test(file)).sort();
  expect(playbooks).toEqual(Object.keys(EXAMPLES).sort());
  expect(playbooks.length).toBeGreaterThanOrEqual(16);
  for (const [file, runs] of Object.entries(EXAMPLES)) expect(runsOf(file), file).toHaveLength(runs.length);
});
