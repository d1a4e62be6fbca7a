import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, type CliEnd, ROOT, runCli } from './cli.fixture.ts';

// Each test starts many processes, on a machine that may have other things to do.
vi.setConfig({ testTimeout: 120_000 });

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-commands-'));
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const cli = (args: readonly string[], options: Parameters<typeof runCli>[1] = {}): Promise<CliEnd> =>
  runCli(args, { cwd: folder, ...options, env: { DATABASE_URL: database.url, ...options.env } });
const jsonOf = <T = Record<string, unknown>>({ stdout }: CliEnd): T => JSON.parse(stdout);
const linesOf = ({ stdout }: CliEnd): Record<string, unknown>[] =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
async function playbook(name: string, workflow: string): Promise<string> {
  const head = `apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: ${name}, version: "1"}\nworkflow:\n`;
  await writeFile(join(folder, `${name}.yaml`), `${head}${workflow}`);
  return `${name}.yaml`;
}
const idOf = (end: CliEnd): string => jsonOf<{ runId: string }>(end).runId;
async function query(text: string, values: unknown[] = []): Promise<void> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  try {
    await client.query(text, values);
  } finally {
    await client.end();
  }
}

describe('init', () => {
  test('writes a configuration and playbooks that run as they are, and says what to type next', async () => {
    // Folders of npm scripts do not count: a reader's shell does not have them.
    const PATH = join(folder, 'node_modules/.bin');
    await mkdir(PATH, { recursive: true });
    await writeFile(join(PATH, 'runledger'), '', { mode: 0o755 });
    const { code, stdout, stderr } = await cli(['init', 'new project'], { env: { PATH } });
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain("  cd 'new project'\n  npx runledger run playbooks/hello.yaml\n");
    await mkdir(join(folder, 'bin'));
    await writeFile(join(folder, 'bin/runledger'), '', { mode: 0o755 });
    const again = await cli(['init', 'new project'], { env: { PATH: join(folder, 'bin') } });
    expect(again.stdout).toContain("  cd 'new project'\n  runledger run playbooks/hello.yaml\n");
    const cwd = join(folder, 'new project');
    expect(await readFile(join(cwd, 'runledger.config.ts'), 'utf8')).toContain("project: 'new-project'");
    expect(jsonOf(await cli(['run', 'playbooks/hello.yaml', '--json'], { cwd }))).toMatchObject({
      status: 'COMPLETED',
      result: 'HELLO, WORLD!',
    });
    const orders = await cli(['run', 'playbooks/orders.yaml', '--json'], { cwd });
    expect(jsonOf(orders)).toMatchObject({ status: 'COMPLETED', result: { orders: 3, total: 145 } });
    expect(jsonOf(await cli(['run', 'playbooks/shared/price.yaml', '--json'], { cwd }))).toMatchObject({
      result: { total: 4 },
    });
    expect(jsonOf(await cli(['status', idOf(orders), '--json'], { cwd }))).toMatchObject({
      run: { projectId: 'new-project', environmentId: 'dev' },
    });
  });

  test('changes no file that is there: the same is kept, another is refused and then nothing is written', async () => {
    const cwd = join(folder, 'twice');
    expect(jsonOf(await cli(['init', 'twice', '--json']))).toMatchObject({ kept: [] });
    await rm(join(cwd, 'playbooks/hello.yaml'));
    expect(jsonOf(await cli(['init', 'twice', '--json']))).toMatchObject({
      written: ['playbooks/hello.yaml'],
      kept: { length: 3 },
    });
    await rm(join(cwd, 'playbooks/hello.yaml'));
    await appendFile(join(cwd, 'playbooks/orders.yaml'), '# mine\n');
    const refused = await cli(['init', 'twice']);
    expect(refused.stderr).toContain('error FILE_EXISTS');
    expect(refused.code).toBe(73);
    await expect(readFile(join(cwd, 'playbooks/hello.yaml'))).rejects.toMatchObject({ code: 'ENOENT' });
    expect(await readFile(join(cwd, 'playbooks/orders.yaml'), 'utf8')).toMatch(/# mine\n$/);
  });
});

describe('logs', () => {
  const PRINTS = `  - {step: start, tool: {kind: shell, cmds: ['echo out; echo err >&2']}, next: {arcs: [{step: many}]}}
  - step: many
    loop: {in: [a, b], iterator: item}
    tool: {name: say, kind: shell, env: {ITEM: "{{ iter.item }}"}, cmds: ['echo "item $ITEM"']}
`;

  test('shows what the tasks of a run printed, by step and for programs', async () => {
    const id = idOf(await cli(['run', await playbook('prints', PRINTS), '--json']));
    const { stdout } = await cli(['logs', id]);
    expect(stdout).toMatch(/^\d\d:\d\d:\d\d\.\d{3} {2}start \| out$/m);
    expect(stdout).toMatch(/ {2}many\/1 say \| item b$/m);
    const lines = linesOf(await cli(['logs', id, '--json', '--step', 'many']));
    expect(lines).toMatchObject([
      { runId: id, stepId: 'many', stream: 'stdout', line: 'item a' },
      { runId: id, stepId: 'many', stream: 'stdout', line: 'item b' },
    ]);
    const streams = linesOf(await cli(['logs', id, '--json', '--step', 'start'])).map(({ stream, line }) => [
      stream,
      line,
    ]);
    expect(streams.sort()).toEqual([
      ['stderr', 'err'],
      ['stdout', 'out'],
    ]);
  });

  test('follows a run that another process works on, from its first line to its last, children included', async () => {
    await playbook('prints-child', "  - {step: inner, tool: {kind: shell, cmds: ['echo from the child']}}\n");
    const file = await playbook(
      'prints-slowly',
      `  - {step: start, tool: {kind: shell, cmds: ['for i in 1 2 3 4; do echo "line $i"; sleep 0.3; done']}, next: {arcs: [{step: sub}]}}
  - {step: sub, tool: {kind: playbook, path: prints-child}}
`,
    );
    const id = idOf(await cli(['run', file, '--detach', '--json']));
    const [followed] = await Promise.all([cli(['logs', id, '--follow']), cli(['resume', id, '--json'])]);
    expect(followed.code).toBe(0);
    const texts = followed.stdout
      .trim()
      .split('\n')
      .map((line) => line.slice(line.indexOf('|') + 2));
    expect(texts).toEqual(['line 1', 'line 2', 'line 3', 'line 4', 'from the child']);
    expect(followed.stdout).toContain('prints-child › inner | from the child');
  });
});

describe('diff', () => {
  const TURNS = `  - step: start
    tool: {kind: noop, result: "{{ workload.turns | default(2) }}"}
    next: {arcs: [{step: count}]}
  - step: count
    set: {ctx.turn: "{{ ctx.turn | default(0) + 1 }}"}
    tool: {kind: noop, result: {run: "{{ execution_id }}"}}
    next: {arcs: [{step: count, when: "{{ ctx.turn < start }}"}, {step: last}]}
  - {step: last, tool: {kind: noop, result: done}}
`;

  test('two runs that did the same are the same, whatever their ids and times', async () => {
    const file = await playbook('turns', TURNS);
    const [a, b] = [idOf(await cli(['run', file, '--json'])), idOf(await cli(['run', file, '--json']))];
    const { code, stdout } = await cli(['diff', a, b]);
    expect(stdout).toContain('The same: route, results and attempts.');
    expect(code).toBe(0);
  });

  test('route, results and steps that differ are named', async () => {
    const file = await playbook('turns', TURNS);
    const a = idOf(await cli(['run', file, '--set', 'turns=2', '--json']));
    const b = idOf(await cli(['run', file, '--set', 'turns=3', '--json']));
    const end = await cli(['diff', a, b, '--json']);
    expect(end.code).toBe(1);
    const { same, differences } = jsonOf<{ same: boolean; differences: object[] }>(end);
    expect(same).toBe(false);
    expect(differences).toContainEqual({ what: 'input', a: { turns: 2 }, b: { turns: 3 } });
    expect(differences).toContainEqual({ what: 'result', stepId: 'start', a: 2, b: 3 });
    expect(differences).toContainEqual({ what: 'route', stepId: 'count#2', a: ['last'], b: ['count'] });
    expect(differences).toContainEqual({ what: 'step', stepId: 'count#3', b: 'SUCCESS' });
    expect(differences).toHaveLength(4);
    const text = (await cli(['diff', a, b])).stdout;
    expect(text).toContain('count#3\n  only in b (SUCCESS)');
    expect(text).toContain('4 differences in 4 places.');
  });
});

test('status says that a killed run is interrupted and how to go on, and of a failed one the error once', async () => {
  const slow = await playbook('left-alone', "  - {step: start, tool: {kind: shell, cmds: ['sleep 20']}}\n");
  const killed = await cli(['run', slow], {
    // A step that takes long is named by what the log says of it.
    watch: (stdout, signal) => void (/● start/.test(stdout) && signal('SIGKILL')),
  });
  expect(killed.code).toBe(null);
  const left = (await cli(['status', 'latest'])).stdout;
  expect(left).toMatch(/^RUNNING, interrupted: nobody works on it {2}left-alone/);
  expect(left).toMatch(/^○ start +interrupted$/m);
  expect(left).toMatch(/\nnext: {3}runledger resume [0-9a-f]{8}\n$/);
  await cli(['pause', 'latest']);
  const paused = (await cli(['status', 'latest'])).stdout;
  expect(paused).toMatch(/^PAUSED {2}left-alone[\s\S]*^○ start +handed back$[\s\S]*next: {3}runledger resume/m);
  await cli(['cancel', 'latest', '--detach']);
  const file = await playbook('once', "  - {step: start, tool: {kind: shell, cmds: ['echo oops >&2; exit 3']}}\n");
  await cli(['run', file]);
  const failed = (await cli(['status', 'latest'])).stdout;
  expect(failed.match(/oops/g)).toHaveLength(1);
  expect(failed).toMatch(
    /✗ start .*EXIT_3\n\nEXIT_3 in step start: [\s\S]*next: {3}runledger logs [0-9a-f]{8} --step start\n/,
  );
});

test('a key of --set that the playbook does not know is a warning, and nothing else is', async () => {
  const file = join(folder, 'greets.yaml');
  const head = 'apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: greets, version: "1"}\n';
  const step = `workflow:\n  - {step: start, tool: {kind: noop, result: "{{ workload.text | default('') }}{{ workload.other | default('') }}"}}\n`;
  await writeFile(file, `${head}workload: {text: hi}\n${step}`);
  const slip = await cli(['run', file, '--set', 'txet=5', '--set', 'te=1']);
  expect(slip.code).toBe(0);
  expect(slip.stderr).toContain(
    "warning --set txet: the workload of the playbook has no 'txet'; did you mean 'text'?\n",
  );
  expect(slip.stderr).toContain('--set te: ');
  const meant = await cli(['run', file, '--set', 'text=5', '--set', 'other=6']);
  expect(meant).toMatchObject({ code: 0, stderr: '' });
  await writeFile(join(folder, 'in.json'), '{"txet": 5}');
  expect(await cli(['run', file, '--input', 'in.json'])).toMatchObject({ code: 0, stderr: '' });
  await writeFile(file, `${head}${step}`);
  expect(await cli(['run', file, '--set', 'txet=5'])).toMatchObject({ code: 0, stderr: '' });
});

test('what is wrong is told from what is odd, and advice names what was asked about', async () => {
  const odd = '  - {step: start, tool: {kind: noop}}\n  - {step: alone, tool: {kind: noop}}\n';
  const warned = await cli(['compile', await playbook('odd', odd)]);
  expect(warned).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^odd\.yaml:6:\d+ warning UNREACHABLE_STEP /),
  });
  expect((await cli(['compile', 'odd.yaml', '--strict'])).stderr).toContain('has 1 warning, which --strict refuses.');
  const broken = await playbook('broken-odd', odd.replace('start, tool: {kind: noop}', 'start, tool: {kind: zzzzzz}'));
  const { stderr } = await cli(['run', broken]);
  expect(stderr).toContain('broken-odd.yaml has 1 problem, 1 warning.');
  expect(stderr).toMatch(/there is no tool 'zzzzzz'; there are .*http.*noop/);
  expect(stderr).not.toMatch(/there are .*agent/);
  expect(stderr).toContain('No configuration was read');
  await writeFile(join(folder, 'empty.json'), '{}');
  expect((await cli(['run', broken, '--config', 'empty.json'])).stderr).toMatch(
    /configuration \S*empty\.json defines no tools/,
  );
  expect((await cli(['run', 'odd.yaml', '--inptu', 'x'])).stderr).toContain('next: See runledger run --help.');
  expect((await cli(['rum'])).stderr).toContain('next: See runledger --help.');
  const id = idOf(await cli(['run', 'odd.yaml', '--json'])).slice(0, 8);
  const lost = await cli(['result', 'latest', 'nothing']);
  expect(lost.stderr).toContain(`next: See its steps: runledger status ${id}.`);
  const type = await cli(['events', 'latest', '--type', 'StepComplete']);
  expect(type).toMatchObject({ code: 64, stderr: expect.stringContaining("did you mean 'StepCompleted'?") });
  expect((await cli(['events', 'latest', '--type', 'runcompleted'])).stdout).toContain('RunCompleted');
});

test('diff names the paths that differ, and an HTTP answer that came later or took longer is the same', async () => {
  const { createServer } = await import('node:http');
  let answers = 0;
  const server = createServer((request, response) => {
    answers++;
    // Never the same time of day, however fast the two runs are.
    response.setHeader('date', new Date(answers * 86_400_000).toUTCString());
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ asked: request.url, items: [1, 2, { deep: 'x' }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as { port: number };
    const file = await playbook(
      'answers',
      `  - {step: start, tool: {kind: http, url: "http://127.0.0.1:${port}/{{ workload.q | default('one') }}"}}\n`,
    );
    const [a, b] = [idOf(await cli(['run', file, '--json'])), idOf(await cli(['run', file, '--json']))];
    expect(await cli(['diff', a, b])).toMatchObject({ code: 0, stdout: expect.stringContaining('The same') });
    const other = idOf(await cli(['run', file, '--set', 'q=two', '--json']));
    const { code, stdout } = await cli(['diff', a, other]);
    expect(code).toBe(1);
    expect(stdout).toContain('  result.data.asked: /one -> /two\n');
    expect(stdout).not.toMatch(/deep|items|elapsed_ms|date/);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

describe('doctor', () => {
  test('finds a run whose work was lost, and --fix makes it again from the log', async () => {
    const id = idOf(await cli(['run', join(ROOT, 'examples/hello.yaml'), '--detach', '--json']));
    await query('delete from runledger.work where run_key = (select run_key from runledger.runs where run_id = $1)', [
      id,
    ]);
    const sick = await cli(['doctor']);
    expect(sick.stdout).toContain(`run ${id.slice(0, 8)} is RUNNING and has no work`);
    expect(sick.stdout).toContain(`next: runledger resume ${id.slice(0, 8)}, or runledger doctor --fix`);
    expect(sick.code).toBe(1);
    const fixed = jsonOf<{ ok: boolean; findings: { fixed?: string }[] }>(await cli(['doctor', '--fix', '--json']));
    expect(fixed.ok).toBe(true);
    expect(fixed.findings).toContainEqual(expect.objectContaining({ fixed: 'made 1 unit of work again from the log' }));
    expect(await cli(['doctor'])).toMatchObject({ code: 0 });
    expect(jsonOf(await cli(['resume', id, '--json']))).toMatchObject({ status: 'COMPLETED' });
  });

  test('finds leases that ran out, and --fix frees them', async () => {
    const id = idOf(await cli(['run', join(ROOT, 'examples/hello.yaml'), '--detach', '--json']));
    await query(
      `update runledger.work set lease_owner = 'elsewhere:1', fence = 7, available_at = clock_timestamp() - interval '1 minute'
       where run_key = (select run_key from runledger.runs where run_id = $1)`,
      [id],
    );
    expect((await cli(['doctor'])).stdout).toContain('1 unit of work held by workers that are gone');
    expect((await cli(['doctor', '--fix'])).stdout).toMatch(/fixed: freed 1 unit of work/);
    expect(await cli(['doctor'])).toMatchObject({ code: 0 });
    await cli(['cancel', id, '--detach']);
  });

  test('brings an old schema up to date with --fix alone', async () => {
    const empty = await createTestDatabase({ empty: true });
    try {
      const env = { DATABASE_URL: empty.url };
      const sick = await cli(['doctor'], { env });
      expect(sick.stdout).toMatch(/STORE_SCHEMA_TOO_OLD: .*\n {2}next: runledger migrate, or runledger doctor --fix/);
      expect(sick.code).toBe(1);
      expect((await cli(['runs'], { env })).code).toBe(69);
      const fixed = await cli(['doctor', '--fix'], { env });
      expect(fixed.stdout).toContain('fixed: applied 0001_ledger');
      expect(fixed.code).toBe(0);
      expect(await cli(['runs'], { env })).toMatchObject({ code: 0 });
    } finally {
      await empty.drop();
    }
  });
});

test('run --watch runs again when the playbook or a sub-playbook changes, and survives a broken one', async () => {
  const inner = await playbook('watched-inner', '  - {step: inner, tool: {kind: noop, result: {word: one}}}\n');
  const outer = await playbook(
    'watched',
    '  - {step: start, tool: {kind: playbook, path: watched-inner}, next: {arcs: [{step: end}]}}\n  - {step: end, tool: {kind: noop, result: "word {{ start.word }}"}}\n',
  );
  const innerPath = join(folder, inner);
  const text = await readFile(innerPath, 'utf8');
  let stage = 0;
  const end = await cli(['run', outer, '--watch'], {
    watch: (stdout, signal, stderr) => {
      const waits = stderr.split('Waits for a change').length - 1;
      if (stage === 0 && waits === 1 && stdout.includes('word one')) {
        stage = 1;
        void writeFile(innerPath, `${text}  - {`);
      } else if (stage === 1 && waits === 2 && stderr.includes('PLAYBOOK_INVALID')) {
        stage = 2;
        void writeFile(innerPath, text.replace('word: one', 'word: two'));
      } else if (stage === 2 && waits === 3 && stdout.includes('word two')) {
        stage = 3;
        signal('SIGINT');
      }
    },
  });
  expect(stage).toBe(3);
  expect(end.stderr).toContain('watched-inner.yaml has changed.');
  expect(end.code).toBe(130);
});

test('runs are listed in pages that lead from one to the next, with their filters', async () => {
  const own = await createTestDatabase();
  try {
    const env = { DATABASE_URL: own.url };
    const hello = join(ROOT, 'examples/hello.yaml');
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.push(idOf(await cli(['run', hello, '--detach', '--json'], { env })));
    await cli(['cancel', ids[1]!, '--detach'], { env });
    const first = await cli(['runs', '--since', '1h', '--limit', '2'], { env });
    const next = /^next: runledger (runs --since 1h --limit 2 --before \d+)$/m.exec(first.stdout)![1]!;
    expect(first.stdout).toContain(ids[2]!.slice(0, 8));
    const second = await cli(next.split(' '), { env });
    expect(second.stdout).toContain(ids[0]!.slice(0, 8));
    expect(second.stdout).not.toContain('next:');
    const cancelled = jsonOf<{ runs: { runId: string }[] }>(
      await cli(['runs', '--status', 'cancelled', '--json'], { env }),
    );
    expect(cancelled.runs.map(({ runId }) => runId)).toEqual([ids[1]]);
    expect(jsonOf(await cli(['runs', '--since', '2999-01-01', '--json'], { env }))).toEqual({ runs: [] });
    expect((await cli(['runs', '--since', 'yesterday'], { env })).code).toBe(64);
    expect((await cli(['status', ids[0]!.slice(0, 1), '--json'], { env })).code).toBe(
      ids.filter((id) => id[0] === ids[0]![0]).length > 1 ? 66 : 0,
    );
  } finally {
    await own.drop();
  }
});

test('what to type next names the same database, and a run that is not there names the one that was looked in', async () => {
  const file = await playbook('placed', '  - {step: start, tool: {kind: noop, result: 1}}\n');
  await writeFile(join(folder, 'my config.json'), '{}');
  const flags = ['--config', 'my config.json', '--folder', 'elsewhere'];
  const ran = await cli(['run', file, ...flags]);
  expect(ran.stdout).toMatch(/^next: {3}runledger events [0-9a-f]{8} --config 'my config.json' --folder elsewhere$/m);
  const paused = await cli(['run', file, '--detach', ...flags]);
  expect(paused.stdout).toMatch(/events [0-9a-f]{8} --follow --config 'my config.json' --folder elsewhere$/m);
  const lost = await cli(['status', 'zzz']);
  const { host, pathname } = new URL(database.url);
  expect(lost.stderr).toContain(`No run begins with 'zzz' in the database at ${host}${pathname}.`);
});

test('a retry is offered after a failure where it can end otherwise', async () => {
  const endOf = async (name: string, tool: string): Promise<string> =>
    (await cli(['run', await playbook(name, `  - {step: start, tool: ${tool}}\n`)])).stdout;
  const own = await endOf('own-fault', '{kind: javascript, code: "return nothing.there"}');
  expect(own).toMatch(
    /next: {3}runledger logs [0-9a-f]{8} --step start\n {8}Correct the playbook, then run it again\.\n$/,
  );
  const template = await endOf('template-fault', '{kind: noop, result: "{{ 1 / 0 }}"}');
  expect(template).toMatch(/next: {3}runledger events [0-9a-f]{8} --type StepFailed\n {8}Correct the playbook/);
  expect(template).not.toContain('retry');
  const secret = await endOf('secret-fault', '{kind: http, url: "http://127.0.0.1:1/", auth: no_such_secret}');
  expect(secret).toMatch(/SECRET_NOT_FOUND[\s\S]*next: {3}runledger retry [0-9a-f]{8} {3}\(when that is done\)/);
  const away = await endOf('away', '{kind: http, url: "http://127.0.0.1:1/"}');
  expect(away).toMatch(/ECONNREFUSED[\s\S]*next: {3}runledger retry [0-9a-f]{8}\n$/);
});

test('retry begins at a step with the newest plan of the name, and status shows a run as it was', async () => {
  const steps = (
    word: string,
  ): string => `  - {step: start, tool: {kind: noop, result: one}, next: {arcs: [{step: end}]}}
  - {step: end, tool: {kind: noop, result: "{{ start }} ${word}"}}
`;
  const file = await playbook('planned', steps('old'));
  const old = idOf(await cli(['run', file, '--json']));
  await playbook('planned', steps('new'));
  await cli(['run', file, '--json']);
  const same = jsonOf(await cli(['retry', old, '--from', 'end', '--plan', 'same', '--json']));
  expect(same).toMatchObject({ status: 'COMPLETED', result: 'one old' });
  const latest = jsonOf(await cli(['retry', old, '--from', 'end', '--plan', 'latest', '--json']));
  expect(latest).toMatchObject({ status: 'COMPLETED', result: 'one new' });
  const before = (await cli(['status', old, '--as-of', '4'])).stdout;
  expect(before).toContain('RUNNING');
  expect(before).toMatch(/after event 4 of \d+/);
  expect(before).not.toContain('end');
});

test('every command answers with JSON alone when it is asked to', async () => {
  const id = idOf(await cli(['run', join(ROOT, 'examples/hello.yaml'), '--json']));
  const asked: readonly (readonly string[])[] = [
    ['init', 'as-json'],
    ['compile', join(ROOT, 'examples/hello.yaml')],
    ['runs'],
    ['status', id],
    ['result', id],
    ['replay', id],
    ['diff', id, id],
    ['verify', id],
    ['migrate'],
    ['migrate', '--print'],
    ['doctor'],
    ['completion', 'bash'],
    ['version'],
    ['retry', id, '--from', 'start'],
  ];
  for (const words of asked) {
    const { code, stdout, stderr } = await cli([...words, '--json']);
    expect(() => JSON.parse(stdout), words.join(' ')).not.toThrow();
    expect([words[0], code, stderr]).toEqual([words[0], 0, '']);
  }
  for (const words of [
    ['events', id],
    ['events', id, '--canonical'],
  ])
    expect(linesOf(await cli([...words, '--json'])).length).toBeGreaterThan(10);
});

test('a run that is paused from elsewhere is left with a word and a code of its own, and can be resumed', async () => {
  const file = await playbook(
    'halted',
    "  - {step: start, tool: {kind: shell, cmds: ['sleep 3']}, next: {arcs: [{step: after}]}}\n  - {step: after, tool: {kind: noop, result: 7}}\n",
  );
  let pausing: Promise<unknown> | undefined;
  const run = await cli(['run', file], {
    watch: (stdout) => {
      if (/● start/.test(stdout)) pausing ??= cli(['pause', 'latest']);
    },
  });
  await pausing;
  expect(run.stdout).toContain('The run was paused from elsewhere.');
  expect(run.stdout).toMatch(/next: runledger resume [0-9a-f]{8}/);
  expect(run.code).toBe(75);
  expect(await cli(['resume', 'latest'])).toMatchObject({ code: 0, stdout: expect.stringContaining('result: 7') });
});

test('a run goes on to its end and tells its exit code though its reader has left', async () => {
  const file = await playbook(
    'unread',
    "  - {step: start, tool: {kind: shell, cmds: ['sleep 1']}, next: {arcs: [{step: after}]}}\n  - {step: after, tool: {kind: shell, cmds: ['exit 3']}}\n",
  );
  const reader = ['bash', '-c', '"$@" | head -n 1; exit "${PIPESTATUS[0]}"', 'bash'];
  const run = await cli(['run', file], { prefix: reader });
  expect(run.code).toBe(1);
  expect((await cli(['status', 'latest'])).stdout).toMatch(/^FAILED/);
});
