import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { displayWidth } from '../../src/cli/terminal.ts';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, ROOT } from './cli.fixture.ts';

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-pty-'));
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

interface Screen {
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Typed when the text was seen. */
  readonly type?: { readonly after: string; readonly keys: string };
}

/** Runs the command line in a real pseudo-terminal. */
function inTerminal(args: readonly string[], screen: Screen = {}): Promise<{ code: number | null; text: string }> {
  const { columns = 80, rows = 24, type } = screen;
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, LANG: 'C.UTF-8', TERM: 'xterm-256color', DATABASE_URL: database.url, ...screen.env };
  const words = [String(columns), String(rows), type?.after ?? '', type?.keys ?? '', process.execPath, builtCli()];
  const child = spawn('python3', [join(import.meta.dirname, 'in_terminal.py'), ...words, ...args], {
    cwd: folder,
    env,
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  return new Promise((done, failed) => {
    child.on('error', failed);
    child.on('close', (code) => done({ code, text }));
  });
}

async function playbook(name: string, workflow: string): Promise<string> {
  const head = `apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: ${name}, version: "1"}\nworkflow:\n`;
  await writeFile(join(folder, `${name}.yaml`), `${head}${workflow}`);
  return `${name}.yaml`;
}

const SLOW = `  - {step: start, tool: {kind: shell, cmds: ['sleep 0.6']}, next: {arcs: [{step: a_step_with_quite_a_long_name_indeed}]}}
  - {step: a_step_with_quite_a_long_name_indeed, tool: {kind: noop, result: ok}}
`;
const ESCAPE = '\u001b';

test('a terminal shows the tree of steps, painted again in its place, and gives the cursor back', async () => {
  const { code, text } = await inTerminal(['run', await playbook('tree', SLOW)]);
  expect(text).toContain(`${ESCAPE}[?25l`);
  expect(text).toMatch(new RegExp(`${ESCAPE}\\[\\d+A\\r${ESCAPE}\\[J`));
  expect(text).toMatch(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/);
  expect(text.lastIndexOf(`${ESCAPE}[?25h`)).toBeGreaterThan(text.lastIndexOf(`${ESCAPE}[?25l`));
  expect(text).toContain(`${ESCAPE}[32mCOMPLETED${ESCAPE}[0m`);
  expect(code).toBe(0);
});

test('NO_COLOR leaves out colours', async () => {
  const { text } = await inTerminal(['run', join(ROOT, 'examples/hello.yaml')], { env: { NO_COLOR: '1' } });
  expect(text).not.toMatch(new RegExp(`${ESCAPE}\\[\\d+m`));
  expect(text).toContain('COMPLETED');
});

test('a dumb terminal gets plain lines in plain characters', async () => {
  const { text } = await inTerminal(['run', join(ROOT, 'examples/hello.yaml')], { env: { TERM: 'dumb' } });
  expect(text).not.toContain(ESCAPE);
  expect(text).toMatch(/^\+ start /m);
});

test('no line is wider than a narrow terminal', async () => {
  const { text } = await inTerminal(['run', await playbook('narrow', SLOW)], { columns: 24 });
  const tree = text.slice(text.indexOf(`${ESCAPE}[?25l`), text.lastIndexOf(`${ESCAPE}[?25h`));
  const lines = tree.split(/[\r\n]+/).filter((line) => line.includes('a_step') || line.includes('start'));
  expect(lines.length).toBeGreaterThan(1);
  for (const line of lines) expect(displayWidth(line)).toBeLessThanOrEqual(24);
});

test('a tree that is higher than the terminal shows its end', async () => {
  const steps = Array.from({ length: 12 }, (_, i) => {
    const tool = i === 11 ? "{kind: shell, cmds: ['sleep 0.5']}" : '{kind: noop}';
    return `  - {step: s${i}, tool: ${tool}${i === 11 ? '' : `, next: {arcs: [{step: s${i + 1}}]}`}}`;
  });
  const { text, code } = await inTerminal(['run', await playbook('tall', `${steps.join('\n')}\n`)], { rows: 8 });
  expect(text).toMatch(/… \d+ more above/);
  expect(code).toBe(0);
});

test('Ctrl-C in a terminal pauses the run and says so', async () => {
  const slow = SLOW.replace('sleep 0.6', 'echo begun; sleep 1');
  const { text, code } = await inTerminal(['run', await playbook('paused', slow), '--logs'], {
    type: { after: 'begun', keys: '\u0003' },
  });
  expect(text).toContain('Pausing: steps in flight may finish.');
  expect(text).toMatch(/Paused run [0-9a-f-]{36}/);
  expect(code).toBe(130);
});
