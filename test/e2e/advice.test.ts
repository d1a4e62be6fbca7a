import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, type CliEnd, runCli } from './cli.fixture.ts';

// Each test starts many processes, on a machine that may have other things to do.
vi.setConfig({ testTimeout: 120_000 });

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-advice-'));
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const cli = (args: readonly string[], options: Parameters<typeof runCli>[1] = {}): Promise<CliEnd> =>
  runCli(args, { cwd: folder, ...options, env: { DATABASE_URL: database.url, ...options.env } });
async function playbook(name: string, workflow: string): Promise<string> {
  const head = `apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: ${basename(name)}, version: "1"}\nworkflow:\n`;
  await writeFile(join(folder, `${name}.yaml`), `${head}${workflow}`);
  return `${name}.yaml`;
}
const THREE =
  '  - {step: fetch, tool: {kind: noop}, next: {arcs: [{step: notify}]}}\n' +
  '  - {step: notify, tool: {kind: noop}, next: {arcs: [{step: last}]}}\n' +
  '  - {step: last, tool: {kind: noop, result: done}}\n';

test('a step that the run does not have is refused wherever one is named, with the name that was meant', async () => {
  await cli(['run', await playbook('three', THREE)]);
  const wrong = [
    ['result', 'latest', 'notfy'],
    ['result', 'latest', 'notfy#2'],
    ['logs', 'latest', '--step', 'notfy'],
    ['logs', 'latest', '--step', 'notfy', '--follow'],
    ['retry', 'latest', '--from', 'notfy'],
    ['skip-step', 'latest', 'notfy'],
  ];
  for (const words of wrong) {
    const { code, stderr } = await cli(words);
    expect([code, stderr], words.join(' ')).toEqual([
      66,
      expect.stringMatching(/STEP_NOT_FOUND: Run [0-9a-f]{8} has no step 'notfy(#2)?'; did you mean 'notify'\?/),
    ]);
  }
  // Nothing is near: then those that there are.
  expect((await cli(['result', 'latest', 'something'])).stderr).toContain('it has fetch, notify, last.');
  const quiet = await cli(['logs', 'latest', '--step', 'notify']);
  expect([quiet.code, quiet.stderr]).toEqual([0, 'The tasks of this step printed nothing.\n']);
  expect((await cli(['runs', '--json'])).stdout.match(/runId/g)).toHaveLength(1);
});

test('the steps of a sub-playbook may be named to logs', async () => {
  await playbook('inner', '  - {step: deep, tool: {kind: noop}}\n');
  await cli(['run', await playbook('outer', '  - {step: call, tool: {kind: playbook, path: inner.yaml}}\n')]);
  expect((await cli(['logs', 'latest', '--step', 'deep'])).code).toBe(0);
  expect((await cli(['logs', 'latest', '--step', 'deep', '--follow'])).code).toBe(0);
  expect((await cli(['logs', 'latest', '--step', 'depe'])).stderr).toContain("did you mean 'deep'");
});

test('skip-step skips what waits, and says of anything else what state it is in and what would work', async () => {
  await playbook('skips', THREE);
  await cli(['run', 'skips.yaml', '--detach']);
  const early = await cli(['skip-step', 'latest', 'notify']);
  expect([early.code, early.stderr]).toEqual([65, expect.stringMatching(/'notify' of run \S+ is not scheduled yet/)]);
  expect(early.stderr).toMatch(/next: Try again when it is waiting in runledger status/);
  expect((await cli(['skip-step', 'latest', 'fetch'])).stdout).toMatch(/^Step fetch of run \S+ is skipped\.$/m);
  const again = await cli(['skip-step', 'latest', 'fetch']);
  expect(again.stderr).toMatch(/Step 'fetch' of run \S+ is SKIPPED: it has ended, and cannot be skipped/);
  expect((await cli(['resume', 'latest'])).code).toBe(0);
  const late = await cli(['skip-step', 'latest', 'notify']);
  expect(late.stderr).toMatch(/Run \S+ is COMPLETED: it has no step left to skip.\nnext: .*retry \S+ --from notify/);
});

test('a step that runs is not skipped, and the way to end it is named', async () => {
  const file = await playbook('busy', "  - {step: wait, tool: {kind: shell, cmds: ['echo begun; sleep 600']}}\n");
  let refused: Promise<CliEnd> | undefined;
  const run = await cli(['run', file, '--logs'], {
    watch: (stdout, signal) => {
      if (!stdout.includes('begun') || refused) return;
      refused = skipWhenStarted();
      void refused.finally(() => signal('SIGTERM'));
    },
  });
  expect(run.code).toBe(143);
  const { stderr } = (await refused)!;
  expect(stderr).toMatch(/Step 'wait' of run \S+ is RUNNING: a step that has begun cannot be skipped\./);
  expect(stderr).toMatch(/next: Let it end, or end the run: runledger cancel [0-9a-f]{8}/);
});

/** A step prints before the log knows that it has begun. */
async function skipWhenStarted(): Promise<CliEnd> {
  for (let left = 100; left > 0; left--) {
    const { stdout } = await cli(['events', 'latest', '--type', 'StepStarted']);
    if (stdout !== '') break;
  }
  return cli(['skip-step', 'latest', 'wait']);
}

test('cancel leaves work alone that belongs to other runs of the same database', async () => {
  const file = await playbook('other', '  - {step: alone, tool: {kind: noop}}\n');
  const other = JSON.parse((await cli(['run', file, '--detach', '--json'])).stdout).runId;
  await cli(['run', file, '--detach']);
  expect((await cli(['cancel', 'latest'])).stdout).toContain('CANCELLED');
  // It did not begin either with what it ended.
  const ended = JSON.parse((await cli(['status', 'latest', '--json'])).stdout).snapshot;
  expect(ended.steps).toMatchObject([{ stepId: 'alone', status: 'SKIPPED' }]);
  const { snapshot } = JSON.parse((await cli(['status', other, '--json'])).stdout);
  expect(snapshot.steps).toMatchObject([{ stepId: 'alone', status: 'PENDING' }]);
});

test('a signal that the run does not take names its state and what would work', async () => {
  await cli(['run', await playbook('ended', THREE)]);
  for (const verb of ['pause', 'cancel', 'resume']) {
    const { code, stderr } = await cli([verb, 'latest']);
    expect([code, stderr], verb).toEqual([
      65,
      expect.stringMatching(/Run \S+ is COMPLETED: .*\nnext: To run it again: runledger retry [0-9a-f]{8} --from STEP/),
    ]);
  }
  expect((await cli(['retry', 'latest'])).stderr).toMatch(/is COMPLETED: .*\nnext: .*retry [0-9a-f]{8} --from STEP/);
  await cli(['run', 'ended.yaml', '--detach']);
  expect((await cli(['retry', 'latest'])).stderr).toMatch(/is RUNNING: .*\nnext: .*runledger resume [0-9a-f]{8}/);
  expect((await cli(['pause', 'latest'])).code).toBe(0);
  const twice = await cli(['pause', 'latest', '--json']);
  expect(JSON.parse(twice.stderr).error).toMatchObject({
    code: 'SIGNAL_REJECTED',
    message: expect.stringContaining('is paused already'),
    next: expect.stringMatching(/runledger resume [0-9a-f]{8}$/),
  });
  expect((await cli(['cancel', 'latest'])).code).toBe(0);
});

test('verify says of a file that is no log what it expects and how to make one, and of a part that it is one', async () => {
  await cli(['run', await playbook('proven', THREE)]);
  const view = await cli(['events', 'latest', '--canonical', '--json']);
  const whole = await cli(['events', 'latest', '--json']);
  const texts = { yaml: 'a: b\n', empty: '\n', other: '{"a": 1}\n', view: view.stdout, shown: '[\n  {}\n]\n' };
  for (const [name, text] of Object.entries(texts)) {
    await writeFile(join(folder, `${name}.jsonl`), text);
    const { code, stderr } = await cli(['verify', `${name}.jsonl`]);
    expect([code, stderr], name).toEqual([
      65,
      expect.stringMatching(
        /SCHEMA_VALIDATION_FAILED: \w+\.jsonl is not a log: .*\nnext: .*runledger events RUN --json > /,
      ),
    ]);
  }
  expect((await cli(['verify', '-'], { input: whole.stdout })).stdout).toContain('standard input: the chain of');
  const [, ...late] = whole.stdout.split('\n');
  const part = await cli(['verify', '-'], { input: late.join('\n') });
  expect(part.stderr).toMatch(
    /CHAIN_BROKEN: standard input: event 1 was removed.*\nnext: Only a whole log can be checked/,
  );
  const cut = await cli(['verify', '-'], { input: `${whole.stdout.trim()}x` });
  expect(cut.stderr).toMatch(/CHAIN_BROKEN: .* is not JSON/);
});

test('compile says of an engine that nothing can be started on that this is so', async () => {
  const file = await playbook('anywhere', THREE);
  for (const engine of ['conductor', 'mock']) {
    expect((await cli(['compile', file, '--engine', engine])).stdout).toMatch(/no (run can be|run is) started there/);
    const told = JSON.parse((await cli(['compile', file, '--engine', engine, '--json'])).stdout);
    expect(told).toMatchObject({ engine, runnable: false, reports: [{ status: 'VALID' }] });
  }
  const { stdout } = await cli(['compile', file, '--engine', 'native']);
  expect(stdout).toMatch(/native VALID anywhere\n$/);
});

test('doctor names a configuration that cannot be read once, and goes on with what needs none', async () => {
  const { code, stdout } = await cli(['doctor'], { env: { RUNLEDGER_ENGINE: 'steam' } });
  expect(code).toBe(1);
  expect(stdout.match(/CONFIG_INVALID/g)).toHaveLength(1);
  expect(stdout).toMatch(/node: v/);
  expect(stdout).toMatch(/python: /);
});

test('doctor finds a file of secrets that others can read, and closes it when it is asked to', async () => {
  const file = join(folder, 'secrets.json');
  await writeFile(file, '{"api_token": "s3cret"}');
  await chmod(file, 0o644);
  const env = { RUNLEDGER_SECRETS_FILE: file };
  const found = await cli(['doctor'], { env });
  expect(found.code).toBe(1);
  expect(found.stdout).toContain(`secrets: ${file} can be read by others (mode 644)\n  next: chmod 600 ${file}`);
  await cli(['doctor', '--fix'], { env });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await cli(['doctor'], { env })).stdout).toContain(`secrets: ${file}\n`);
  await writeFile(file, '{"api_token": ');
  expect((await cli(['doctor'], { env })).stdout).toMatch(/secrets: CONFIG_INVALID: .* is not JSON/);
});

test('runs tells two plans of one name and version apart, and only then', async () => {
  const file = await playbook('changing', THREE);
  await cli(['run', file]);
  await cli(['run', file]);
  expect((await cli(['runs', '--plan', 'changing'])).stdout).not.toContain('plan ');
  await playbook('changing', THREE.replace('result: done', 'result: changed'));
  const { stdout } = await cli(['run', file]);
  const hash = /plan ([0-9a-f]{12})/.exec(stdout)?.[1];
  const listed = (await cli(['runs', '--plan', 'changing'])).stdout;
  expect(new Set([...listed.matchAll(/changing 1 {2}plan ([0-9a-f]{12})/g)].map(([, found]) => found)).size).toBe(2);
  expect(listed).toContain(`plan ${hash}`);
  expect((await cli(['status', 'latest'])).stdout).toContain(`changing 1  plan ${hash}`);
});

test('the events of a loop name the item of each iteration, whichever of them are asked for', async () => {
  const loop = '  - {step: each, loop: {in: [Rome, {code: 7}], iterator: city}, tool: {kind: noop}}\n';
  await cli(['run', await playbook('items', loop)]);
  const { stdout } = await cli(['events', 'latest', '--type', 'LoopIterationDone']);
  expect(stdout).toMatch(/each\/0 +city: Rome/);
  expect(stdout).toMatch(/each\/1 +city: \{"code":7\}/);
  expect((await cli(['events', 'latest', '--follow'])).stdout).toMatch(/LoopIterationStarted +each\/0 +city: Rome/);
});

test('what is not quite there is named: a file, a configuration beside the playbook, a second run', async () => {
  const file = await playbook('nearly', THREE);
  expect((await cli(['run', 'nearly.yml'])).stderr).toContain(`nearly.yml does not exist; did you mean '${file}'?`);
  expect((await cli(['run', 'far/nearly.yml'])).stderr).toContain('far/nearly.yml does not exist.');
  expect((await cli(['diff', 'latest'])).stderr).toContain("'diff' needs another RUN.");
  expect((await cli(['compile', '-'], { input: 'hello' })).stderr).toContain('standard input has 1 problem.');
  await mkdir(join(folder, 'own'));
  await playbook('own/slugs', '  - {step: start, tool: {kind: slug}}\n');
  await writeFile(join(folder, 'own/runledger.config.json'), '{}');
  expect((await cli(['compile', 'own/slugs.yaml'])).stderr).toContain('--config own/runledger.config.json');
});

test('status says of a run that was started for workers that it waits for one, and what to type', async () => {
  const file = await playbook('waiting', THREE);
  await cli(['run', file, '--detach']);
  const { stdout } = await cli(['status', 'latest']);
  expect(stdout).toMatch(/^RUNNING, waits for a worker {2}waiting 1/);
  expect(stdout).toMatch(/next: {3}runledger worker, or here: runledger resume [0-9a-f]{8}\n$/);
  await cli(['resume', 'latest']);
  expect((await cli(['status', 'latest'])).stdout).toMatch(/^COMPLETED in /);
  expect((await cli(['runs', '--plan', 'nowhere'])).stdout).toBe('No runs fit.\n');
});
