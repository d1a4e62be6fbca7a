import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { displayWidth } from '../../src/cli/terminal.ts';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, ROOT, runCli } from './cli.fixture.ts';
import { screenOf } from './screen.fixture.ts';

vi.setConfig({ testTimeout: 120_000 });

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
  /** A line for bash instead of arguments. */
  readonly shell?: string;
  /** What a person does, each when the text was seen since the last thing that was done. */
  readonly acts?: readonly ({ readonly after: string } & (
    | { readonly keys: string }
    | { readonly columns: number; readonly rows: number }
  ))[];
}

/** Runs the command line in a real pseudo-terminal. */
function inTerminal(args: readonly string[], screen: Screen = {}): Promise<{ code: number | null; text: string }> {
  const { columns = 80, rows = 24, acts = [] } = screen;
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, LANG: 'C.UTF-8', TERM: 'xterm-256color', DATABASE_URL: database.url, ...screen.env };
  const words = [String(columns), String(rows), JSON.stringify(acts)];
  words.push(...(screen.shell === undefined ? [process.execPath, builtCli()] : ['bash', '-c', screen.shell]));
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

test('an error breaks between words, its code in colour and its next step below', async () => {
  const { text, code } = await inTerminal(['runs', '--status', 'done'], { columns: 40 });
  const lines = text.trimEnd().split(/\r?\n/);
  expect(lines[0]).toBe(`${ESCAPE}[31merror USAGE${ESCAPE}[0m: --status must be one of`);
  expect(lines.at(-1)).toBe('next: See runledger runs --help.');
  for (const line of lines) expect(displayWidth(line)).toBeLessThan(40);
  expect(code).toBe(64);
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

test('the screen holds every step once at the end, whatever was painted in between, and the sub-playbook below its step', async () => {
  await playbook('inner', "  - {step: deep, tool: {kind: shell, cmds: ['sleep 0.4']}}\n");
  const file = await playbook(
    'outer',
    `  - {step: start, tool: {kind: shell, cmds: ['sleep 0.3']}, next: {arcs: [{step: many}]}}
  - {step: many, loop: {in: [1, 2, 3, 4], iterator: n}, tool: {kind: shell, cmds: ['sleep 0.2']}, next: {arcs: [{step: sub}]}}
  - {step: sub, tool: {kind: playbook, path: inner}}
`,
  );
  const { text, code } = await inTerminal(['run', file], { columns: 90 });
  expect(code).toBe(0);
  const screen = screenOf(text, 90);
  const tree = screen.slice(1, screen.indexOf(''));
  expect(tree.map((line) => line.replace(/ {2,}[\d.]+ m?s$/, ''))).toEqual([
    '✓ start',
    expect.stringMatching(/^✓ many +4\/4$/),
    '✓ sub',
    '  ✓ deep',
  ]);
  // While it went on: the bar of the run, the bar of the loop.
  expect(text).toMatch(/█+░* {2}[123]\/3 steps/);
  expect(text).toMatch(/many +[█░]{10} \d\/4/);
});

test('a window that gets narrower in the middle of a run gets lines that fit', async () => {
  const slow = SLOW.replace('sleep 0.6', 'sleep 2');
  const { text, code } = await inTerminal(['run', await playbook('resized', slow)], {
    columns: 100,
    acts: [{ after: '0/2 steps', columns: 30, rows: 10 }],
  });
  expect(code).toBe(0);
  const painted = text.split(`${ESCAPE}[J`);
  const after = painted.slice(painted.findIndex((frame) => frame.includes('0/2 steps')) + 2, -1);
  expect(after.length).toBeGreaterThan(3);
  // The frame that was on its way when the window changed may still be a wide one.
  const late = after.slice(2).flatMap((frame) => frame.split(/[\r\n]+/));
  for (const line of late) expect(displayWidth(line)).toBeLessThan(30);
});

test('after Ctrl-C the last line says what another one does, and a long error breaks between words', async () => {
  const file = await playbook(
    'pausing',
    "  - {step: start, tool: {kind: shell, cmds: ['sleep 2']}, next: {arcs: [{step: end}]}}\n  - {step: end, tool: {kind: noop}}\n",
  );
  const { text } = await inTerminal(['run', file], { columns: 110, acts: [{ after: '0/2 steps', keys: '\u0003' }] });
  expect(text.slice(text.indexOf('Pausing:'))).toMatch(/pausing, Ctrl-C leaves at once/);
  expect(text.slice(text.indexOf('Pausing:'))).not.toContain('Ctrl-C pauses');
  const words = Array.from({ length: 30 }, (_, i) => `word${i}`).join(' ');
  const failing = await playbook(
    'wordy',
    `  - {step: start, tool: {kind: javascript, code: "throw new Error('${words}')"}}\n`,
  );
  const screen = screenOf((await inTerminal(['run', failing], { columns: 60 })).text, 60);
  const from = screen.findIndex((line) => line.includes(' in step start: '));
  const shown = screen
    .slice(
      from,
      screen.findIndex((line) => line.startsWith('run:')),
    )
    .join(' ');
  expect(shown).toContain(words);
});

test('the key l shows what tasks print, and hides it again', async () => {
  const file = await playbook(
    'chatty',
    '  - {step: start, tool: {kind: shell, cmds: [\'for i in 1 2 3 4 5 6 7 8 9; do echo "word $i"; sleep 0.4; done\']}}\n',
  );
  const { text, code } = await inTerminal(['run', file], {
    acts: [
      { after: 'l shows what tasks print', keys: 'l' },
      { after: 'start | word', keys: 'l' },
    ],
  });
  expect(code).toBe(0);
  expect(text).toContain('l hides what tasks print');
  const shown = screenOf(text, 80).filter((line) => line.startsWith('start | word'));
  expect(shown.length).toBeGreaterThan(0);
  expect(shown.length).toBeLessThan(9);
});

describe('Ctrl-C in a terminal', () => {
  const slow = SLOW.replace('sleep 0.6', 'echo begun; sleep 2');

  test('once pauses the run, drains it and says so; resume goes on', async () => {
    const { text, code } = await inTerminal(['run', await playbook('paused', slow), '--logs'], {
      acts: [{ after: 'begun', keys: '\u0003' }],
    });
    expect(text).toContain('Pausing: steps in flight may finish.');
    const id = /Paused run ([0-9a-f-]{36})/.exec(text)![1]!;
    expect(code).toBe(130);
    const resumed = await inTerminal(['resume', id]);
    expect(screenOf(resumed.text, 80).join('\n')).toMatch(/✓ start [\s\S]*✓ a_step[\s\S]*COMPLETED/);
  });

  test('twice hands the leases back and leaves at once; resume goes on', async () => {
    const { text, code } = await inTerminal(
      ['run', await playbook('left', slow.replace('sleep 2', 'sleep 20')), '--logs'],
      {
        acts: [
          { after: 'begun', keys: '\u0003' },
          { after: 'Pausing', keys: '\u0003' },
        ],
      },
    );
    const id = /Left run ([0-9a-f-]{36})/.exec(text)![1]!;
    expect(text).not.toContain('✓');
    expect(code).toBe(130);
    const env = { DATABASE_URL: database.url };
    const { stdout } = await runCli(['status', id, '--json'], { env });
    expect(JSON.parse(stdout)).toMatchObject({ snapshot: { status: 'PAUSED' } });
    const resumed = await inTerminal(['resume', id, '--logs'], {
      acts: [
        { after: 'begun', keys: '\u0003' },
        { after: 'Pausing', keys: '\u0003' },
      ],
    });
    expect(resumed.text).toContain('nothing is lost');
  });
});

test('the terminal shows what is typed again after the command', async () => {
  const command = `"${process.execPath}" "${builtCli()}" run "${await playbook('echo', SLOW)}" > /dev/tty; stty -a < /dev/tty`;
  const { text } = await inTerminal([], { shell: command });
  expect(text).toMatch(/(?<!-)\bicanon\b/);
  expect(text).toMatch(/(?<!-)\becho\b/);
  expect(text).toMatch(/(?<!-)\bisig\b/);
});

test('in the background of a shell the command is not stopped for want of the terminal', async () => {
  const file = await playbook('background', SLOW);
  const command = `set -m; "${process.execPath}" "${builtCli()}" run "${file}" & wait $!; echo "ended $?"`;
  const { text } = await inTerminal([], { shell: command });
  expect(text).toContain('COMPLETED');
  expect(text).toContain('ended 0');
});

test('a pipe gets plain lines without a sign of a terminal', async () => {
  const { stdout } = await runCli(['run', await playbook('piped', SLOW)], {
    cwd: folder,
    env: { DATABASE_URL: database.url },
  });
  expect(stdout).not.toContain(ESCAPE);
  expect(stdout).toMatch(/^✓ start +[\d.]+ m?s\n✓ a_step_with_quite_a_long_name_indeed +\d/m);
});

test('without UTF-8 every sign is ASCII, in a pipe and in a terminal', async () => {
  const file = await playbook('ascii', SLOW);
  const env = { LANG: 'C', LC_ALL: 'C' };
  const { text } = await inTerminal(['run', file], { env });
  expect(text).toContain('COMPLETED');
  const piped = await runCli(['run', file], { cwd: folder, env: { DATABASE_URL: database.url, ...env } });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII begins with them.
  for (const output of [text, piped.stdout]) expect(output).toMatch(/^[\x00-\x7f]*$/);
});
