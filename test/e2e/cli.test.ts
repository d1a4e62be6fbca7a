import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, type CliEnd, ROOT, runCli } from './cli.fixture.ts';

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-cli-'));
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const cli = (args: readonly string[], options: Parameters<typeof runCli>[1] = {}): Promise<CliEnd> =>
  runCli(args, { cwd: folder, ...options, env: { DATABASE_URL: database.url, ...options.env } });
const example = (name: string): string => join(ROOT, 'examples', name);
async function playbook(name: string, workflow: string, metadata = 'version: "1"'): Promise<string> {
  const head = `apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: ${name}, ${metadata}}\nworkflow:\n`;
  await writeFile(join(folder, `${name}.yaml`), `${head}${workflow}`);
  return `${name}.yaml`;
}
const jsonOf = ({ stdout }: CliEnd): Record<string, unknown> => JSON.parse(stdout);

describe('help', () => {
  test('every command has help with a usage line and an example', async () => {
    const { commandHelp } = await import('../../src/cli/help.ts');
    for (const [name, row] of Object.entries(COMMANDS)) {
      const text = commandHelp(name, row);
      expect(text).toContain(`Usage: runledger ${name}`);
      expect(row.examples.length).toBeGreaterThan(0);
      expect(row.examples.every((line) => line.includes(`runledger ${name}`))).toBe(true);
    }
  });

  test('help is printed without opening anything', async () => {
    const env = { DATABASE_URL: 'postgres://127.0.0.1:1/none' };
    const { code, stdout } = await cli(['run', '--help'], { env });
    expect(code).toBe(0);
    expect(stdout).toContain('runledger run FILE [FLAGS]');
    expect((await cli([], { env })).code).toBe(64);
    expect((await cli(['version', '--json'], { env })).stdout).toContain('"version"');
  });
});

describe('bad input is refused with a code, a place and a next step', () => {
  test.each([
    [['rum', 'x.yaml'], 64, /error USAGE: There is no command 'rum'; did you mean 'run'\?\nnext: /],
    [['runs', '--limt', '3'], 64, /There is no flag '--limt'; did you mean '--limit'\?/],
    [['runs', '--limit', '-3'], 64, /error USAGE/],
    [['runs', '--limit', '1.5'], 64, /--limit must be a whole number from 1 on/],
    [['runs', '--status', 'SLEEPING'], 64, /--status must be one of PENDING/],
    [['status'], 64, /'status' needs RUN/],
    [['status', 'a', 'b'], 64, /'b' is one too many/],
    [['run', 'nowhere.yaml'], 66, /error FILE_NOT_READABLE: nowhere.yaml does not exist/],
    [['run', '.'], 66, /is a folder/],
    [['run', 'x.yaml', '--set', 'novalue'], 64, /--set takes NAME=VALUE/],
    [['run', 'x.yaml', '--input', 'nothing.json'], 66, /nothing.json does not exist/],
    [['status', 'no-such-run'], 66, /error RUN_NOT_FOUND: No run begins with 'no-such-run'/],
    [['verify', 'nowhere.jsonl'], 66, /does not exist/],
    [['retry', 'latest', '--plan', 'latest'], 64, /--from must say where to begin/],
    [['runs', '--config', 'nowhere.ts'], 78, /error CONFIG_INVALID/],
  ] as const)('%j', async (args, exit, message) => {
    const { code, stdout, stderr } = await cli(args);
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/\nnext: \S/);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(stdout).toBe('');
    expect(code).toBe(exit);
  });

  test('a broken playbook is shown with place and line, and nothing is started', async () => {
    const file = await playbook('broken', '  - {step: start, tool: {kind: noop}, next: {arcs: [{step: nowhere}]}}\n');
    const { code, stderr } = await cli(['run', file], { env: { DATABASE_URL: 'postgres://127.0.0.1:1/none' } });
    expect(stderr).toMatch(/^broken\.yaml:5:\d+ ARC_TO_NOWHERE/);
    expect(stderr).toContain('error PLAYBOOK_INVALID: broken.yaml has 1 problem.');
    expect(code).toBe(65);
    const { stderr: asJson } = await cli(['compile', file, '--json']);
    expect(JSON.parse(asJson)).toMatchObject({
      error: { code: 'PLAYBOOK_INVALID', problems: [{ code: 'ARC_TO_NOWHERE', file: 'broken.yaml', line: 5 }] },
    });
  });

  test('WE-4a WE-4b compile says what an engine has, lacks, emulates or runs without, and fails where no run could start', async () => {
    const asking = (name: string, fallback: string): Promise<string> =>
      playbook(
        name,
        '  - {step: start, tool: {kind: noop}}\n',
        `requiresCapabilities: [PAUSE, CANCEL], fallbackBehavior: ${fallback}`,
      );
    const file = await asking('demanding', 'reject');
    const refused = await cli(['compile', file, '--engine', 'conductor']);
    expect(refused.stdout).toMatch(
      /^conductor ERRORS demanding\n {2}CAPABILITY_NOT_SUPPORTED conductor does not have CANCEL/m,
    );
    expect(refused.code).toBe(65);
    expect(await cli(['compile', file, '--engine', 'temporal'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^temporal VALID demanding$/m),
    });
    const emulated = await cli(['compile', await asking('lenient', 'emulate'), '--engine', 'conductor', '--json']);
    expect(emulated.code).toBe(0);
    expect(JSON.parse(emulated.stdout)).toMatchObject({
      engine: 'conductor',
      reports: [
        {
          planId: 'lenient',
          status: 'WARNINGS',
          errors: [],
          warnings: [{ code: 'CAPABILITY_EMULATED' }, { code: 'CAPABILITY_EMULATED' }],
        },
      ],
    });
    expect((await cli(['compile', file, '--engine', 'steam'])).code).toBe(64);
  });

  test('text that is no YAML is refused from a pipe as well', async () => {
    const { code, stderr } = await cli(['compile', '-'], { input: 'a: [1\n' });
    expect(stderr).toContain('<stdin>:');
    expect(code).toBe(65);
  });

  test('a database that is down is said at once', async () => {
    const began = Date.now();
    const { code, stderr } = await cli(['runs'], { env: { DATABASE_URL: 'postgres://127.0.0.1:1/none' } });
    expect(stderr).toContain('error STORE_UNAVAILABLE');
    expect(code).toBe(69);
    expect(Date.now() - began).toBeLessThan(14_000);
  });

  test('a folder that cannot be made is refused', async () => {
    const args = ['run', example('hello.yaml'), '--folder', '/dev/null/here'];
    const { code, stderr } = await runCli(args, { cwd: folder });
    expect(stderr).toContain('error EMBEDDED_FOLDER_UNUSABLE');
    expect(code).toBe(69);
  });

  test('a configuration with an unknown setting is refused', async () => {
    await writeFile(join(folder, 'bad.json'), '{"databaseURL": "x"}');
    const { code, stderr } = await cli(['runs', '--config', 'bad.json']);
    expect(stderr).toContain("there is no setting 'databaseURL'");
    expect(code).toBe(78);
  });
});

test('runledger.config.ts is read without a build step, and the environment wins over it', async () => {
  const text = "const tenant: string = 'acme';\nexport default { tenant, project: 'books' } satisfies object;\n";
  await writeFile(join(folder, 'own.config.ts'), text);
  const args = ['run', example('hello.yaml'), '--config', 'own.config.ts', '--json'];
  const { runId } = jsonOf(await cli(args, { env: { RUNLEDGER_PROJECT: 'shop' } }));
  const { run } = jsonOf(await cli(['status', runId as string, '--json']));
  expect(run).toMatchObject({ tenantId: 'acme', projectId: 'shop', environmentId: 'dev' });
});

test('a database without the schema is refused until it is migrated', async () => {
  const empty = await createTestDatabase({ empty: true });
  try {
    const env = { DATABASE_URL: empty.url };
    const before = await cli(['runs'], { env });
    expect(before.stderr).toContain('error STORE_SCHEMA_TOO_OLD');
    expect(before.code).toBe(69);
    expect((await cli(['migrate'], { env })).stdout).toMatch(/^Applied 0001_ledger/);
    expect((await cli(['migrate'], { env })).stdout).toBe('The schema is up to date.\n');
    expect(await cli(['runs', '--json'], { env })).toMatchObject({ code: 0, stdout: '{\n  "runs": []\n}\n' });
  } finally {
    await empty.drop();
  }
});

test('the README shows what hello prints', async () => {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  const shown = /\$ npx runledger run examples\/hello\.yaml\n([\s\S]*?)```/.exec(readme)?.[1] ?? '';
  const { stdout, stderr, code } = await cli(['run', example('hello.yaml')]);
  const plain = (text: string): string =>
    text
      .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
      .replace(/(run|events) +[0-9a-f]{8}/g, '$1 ID')
      .replace(/ +[\d.]+ m?s/g, ' TIME');
  expect(plain(stdout)).toBe(plain(shown));
  expect([stderr, code]).toEqual(['', 0]);
});

test('a run can be looked into from every side, by the beginning of its id', async () => {
  const { runId } = jsonOf(await cli(['run', example('hello.yaml'), '--set', 'name=Ada', '--json'])) as {
    runId: string;
  };
  const short = runId.slice(0, 8);
  const listed = jsonOf(await cli(['runs', '--limit', '1', '--json'])) as { runs: { runId: string }[] };
  expect(listed.runs[0]).toMatchObject({ runId, status: 'COMPLETED', planId: 'hello' });
  expect(listed.runs[0]).not.toHaveProperty('runKey');
  expect(jsonOf(await cli(['status', short, '--json']))).toMatchObject({
    run: { runId },
    snapshot: { status: 'COMPLETED', steps: [{ stepId: 'start', status: 'SUCCESS' }, { stepId: 'shout' }] },
  });
  expect(jsonOf(await cli(['status', short, '--as-of', '5', '--json']))).toMatchObject({
    snapshot: { status: 'RUNNING', lastEventSeq: 5 },
  });
  expect((await cli(['status', 'latest'])).stdout).toContain('COMPLETED');
  expect((await cli(['result', short])).stdout).toBe('HELLO, ADA!\n');
  expect((await cli(['result', short, 'start'])).stdout).toBe('{\n  "text": "Hello, Ada!"\n}\n');
  expect(await cli(['result', short, 'strat'])).toMatchObject({
    code: 66,
    stderr: expect.stringContaining("did you mean 'start'?"),
  });
  expect(await cli(['replay', short])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^The same: \d+ decisions/),
  });
  expect(await cli(['verify', short])).toMatchObject({ code: 0, stdout: expect.stringContaining('unbroken') });
  const canonical = (await cli(['events', short, '--canonical'])).stdout;
  expect(canonical).toContain('playbook.started');
  expect((await cli(['events', short, '--follow'])).stdout.trim().split('\n')).toHaveLength(16);
});

test('the log as a file is verified without a database, and a change in it is found', async () => {
  await cli(['run', example('hello.yaml')]);
  const { stdout } = await cli(['events', 'latest', '--json']);
  const nowhere = { env: { DATABASE_URL: 'postgres://127.0.0.1:1/none' } };
  await writeFile(join(folder, 'run.jsonl'), stdout);
  expect(await cli(['verify', 'run.jsonl', '--json'], nowhere)).toMatchObject({ code: 0 });
  await writeFile(join(folder, 'changed.jsonl'), stdout.replace('HELLO, WORLD!', 'HELLO, MARS!!'));
  const changed = await cli(['verify', 'changed.jsonl'], nowhere);
  expect(changed.stderr).toContain('error CHAIN_BROKEN');
  expect(changed.stderr.match(/was changed/g)).toHaveLength(1);
  expect(changed.code).toBe(65);
});

test('a reader that has seen enough is no failure', async () => {
  await cli(['run', example('parallel-loop.yaml')]);
  const { execFile } = await import('node:child_process');
  const { promisify } = await import('node:util');
  const command = `"${process.execPath}" "${builtCli()}" events latest --json | head -n 1; echo "\${PIPESTATUS[0]}"`;
  const env = { ...process.env, DATABASE_URL: database.url };
  const { stdout, stderr } = await promisify(execFile)('bash', ['-c', command], { cwd: folder, env });
  expect(stdout.trim().split('\n').at(-1)).toBe('0');
  expect(stderr).toBe('');
});

test('a run that fails says where and why, exits with 1, and is retried from where it failed', async () => {
  const file = await playbook(
    'fails',
    `  - {step: start, tool: {kind: noop, result: 1}, next: {arcs: [{step: check}]}}
  - {step: check, tool: {kind: shell, cmds: ['test -e marker']}}
`,
  );
  const failed = await cli(['run', file]);
  expect(failed.code).toBe(1);
  expect(failed.stdout).toMatch(/✗ check .*\n\nFAILED in/);
  expect(failed.stdout).toMatch(/in step check: /);
  expect(failed.stdout).toMatch(
    /next: {3}runledger logs [0-9a-f]{8} --step check\n.*If the cause is elsewhere: runledger retry [0-9a-f]{8}\n$/s,
  );
  const resumed = await cli(['resume', 'latest']);
  expect(resumed).toMatchObject({ code: 65, stderr: expect.stringContaining('runledger retry') });
  await writeFile(join(folder, 'marker'), '');
  const again = jsonOf(await cli(['retry', 'latest', '--json']));
  expect(again).toMatchObject({ status: 'COMPLETED' });
});

describe('Ctrl-C', () => {
  const slow = `  - {step: start, tool: {kind: shell, cmds: ['echo begun; sleep 1.5; echo one']}, next: {arcs: [{step: two}]}}
  - {step: two, tool: {kind: noop, result: "{{ start.lines | last }} two"}}
`;

  test('once pauses the run, lets the step in flight finish, and resume goes on', async () => {
    const file = await playbook('slow-once', slow);
    let sent = false;
    const paused = await cli(['run', file, '--logs'], {
      watch: (stdout, signal) => {
        if (sent || !stdout.includes('begun')) return;
        sent = true;
        signal('SIGINT');
      },
    });
    expect(paused.stdout).toMatch(/Pausing: [\s\S]*✓ start [\s\S]*Paused run [\s\S]*next: runledger resume/);
    expect(paused.code).toBe(130);
    const id = /Paused run ([0-9a-f-]{36})/.exec(paused.stdout)![1]!;
    expect(jsonOf(await cli(['status', id, '--json']))).toMatchObject({ snapshot: { status: 'PAUSED' } });
    expect(jsonOf(await cli(['resume', id, '--json']))).toMatchObject({ status: 'COMPLETED', result: 'one two' });
  });

  test('twice hands the step back and leaves at once, and resume goes on', async () => {
    const file = await playbook('slow-twice', slow.replace('sleep 1.5', 'sleep 4'));
    let sent = 0;
    const left = await cli(['run', file, '--logs'], {
      watch: (stdout, signal) => {
        if (sent === 0 && stdout.includes('begun')) {
          sent = 1;
          signal('SIGINT');
        } else if (sent === 1 && stdout.includes('Pausing')) {
          sent = 2;
          signal('SIGINT');
        }
      },
    });
    expect(left.stdout).toContain('handed back, nothing is lost');
    expect(left.stdout).not.toContain('✓ start');
    expect(left.code).toBe(130);
    const id = /Left run ([0-9a-f-]{36})/.exec(left.stdout)![1]!;
    expect(jsonOf(await cli(['resume', id, '--json']))).toMatchObject({ status: 'COMPLETED', result: 'one two' });
  });
});

test('a run that nobody works on is paused and cancelled from outside', async () => {
  const started = jsonOf(await cli(['run', example('hello.yaml'), '--detach', '--json']));
  const id = started['runId'] as string;
  expect(jsonOf(await cli(['pause', id, '--json']))).toMatchObject({ runId: id, status: 'PAUSED' });
  const cancelled = await cli(['cancel', id, '--reason', 'not needed']);
  expect(cancelled.stdout).toContain('CANCELLED');
  expect(cancelled.code).toBe(0);
  expect(jsonOf(await cli(['runs', '--status', 'cancelled', '--json']))).toMatchObject({ runs: [{ runId: id }] });
});

test('the folder of an embedded database is made on the first run and used by the second', async () => {
  const own = await mkdtemp(join(tmpdir(), 'runledger-embedded-'));
  // Root's server runs as another account, to which a temporary folder is closed.
  await chmod(own, 0o755);
  try {
    const first = await runCli(['run', example('hello.yaml'), '--json'], { cwd: own });
    expect(first).toMatchObject({ code: 0, stderr: '' });
    const list = jsonOf(await runCli(['runs', '--json'], { cwd: own })) as { runs: unknown[] };
    expect(list.runs).toHaveLength(1);
    expect(await runCli(['doctor'], { cwd: own })).toMatchObject({ code: 0 });
  } finally {
    await rm(own, { recursive: true, force: true });
  }
});

test('completion scripts are ones that their shell accepts', async () => {
  const { stdout } = await cli(['completion', 'bash']);
  const checked = await import('node:child_process').then(({ spawnSync }) =>
    spawnSync('bash', ['-n'], { input: stdout }),
  );
  expect(checked.status).toBe(0);
  expect((await cli(['completion', 'tcsh'])).code).toBe(64);
});
