import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, runCli } from './cli.fixture.ts';

// Each of these is a process of its own, on a machine that may have other things to do.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 240_000 });

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  // Outside of the project: nothing that it has installed can be found from there.
  folder = await mkdtemp(join(tmpdir(), 'runledger-config-'));
  await mkdir(join(folder, 'tools'));
  await writeFile(join(folder, 'tools/greet.ts'), TOOL);
  await writeFile(join(folder, 'runledger.config.ts'), CONFIG);
  await writeFile(join(folder, 'greet.yaml'), PLAYBOOK);
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const TOOL = `import { defineTool, Type, toolFailure } from 'runledger';

interface Greeting { readonly text: string }

export const greet = defineTool({
  kind: 'greet',
  input: Type.Object({ who: Type.String() }),
  effect: 'compute',
  run({ who }): Greeting {
    if (who === '') throw toolFailure({ code: 'NOBODY', message: 'nobody to greet' });
    return { text: \`Hello, \${who}!\` };
  },
});
`;
const CONFIG = `import { defineConfig, type RunledgerConfig } from 'runledger';
import { greet } from './tools/greet.ts';

const own: RunledgerConfig = { tools: [greet], tenant: 'acme' as string };
export default defineConfig(own);
`;
const PLAYBOOK = `apiVersion: runledger/v1
kind: Playbook
metadata: {name: greet, version: "1"}
workload: {who: Ada}
workflow:
  - step: start
    tool: {kind: greet, who: "{{ workload.who }}"}
    next: {arcs: [{step: sorry, when: "{{ event.name == 'step.failed' }}"}]}
  - step: sorry
    tool: {kind: noop, result: "{{ start.error.code }}"}
`;

const cli = (...args: string[]): ReturnType<typeof runCli> =>
  runCli(args, { cwd: folder, env: { DATABASE_URL: database.url } });

test.each([[undefined], ['module'], ['commonjs']])(
  'runledger.config.ts and the tool beside it are read in a project of type %s that has nothing installed',
  async (type) => {
    await writeFile(join(folder, 'package.json'), JSON.stringify({ type }));
    const { stdout, stderr, code } = await cli('run', 'greet.yaml', '--json');
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toMatchObject({ status: 'COMPLETED', result: { text: 'Hello, Ada!' } });
    expect(code).toBe(0);
  },
);

test('a failure that the tool states keeps its code, because there is one copy of the library', async () => {
  const { stdout } = await cli('run', 'greet.yaml', '--set', 'who=', '--json');
  expect(JSON.parse(stdout)).toMatchObject({ status: 'COMPLETED', result: 'NOBODY' });
});

test('a tool may not have a field that every task has', async () => {
  await writeFile(join(folder, 'named.config.ts'), CONFIG.replace('greet.ts', 'named.ts'));
  await writeFile(join(folder, 'tools/named.ts'), TOOL.replaceAll('who', 'name'));
  const { stderr, code } = await cli('run', 'greet.yaml', '--config', 'named.config.ts');
  expect(stderr).toContain("error CONFIG_INVALID: the tool 'greet' has a field 'name'");
  expect(code).toBe(78);
});

test.each([
  ['broken.config.ts', 'export default {', /broken\.config\.ts:1:\d+ /],
  ['enum.config.ts', 'enum A { B }\nexport default {};', /enum\.config\.ts:1:1 .*enum/],
  ['lost.config.ts', "import './tools/nowhere.ts';\nexport default {};", /nowhere\.ts/],
  ['thrown.config.ts', "throw new Error('no luck');", /no luck/],
  ['nothing.config.ts', 'export const a = 1;', /the default export must be an object/],
  ['cjs.config.js', 'module.exports = { tenat: "x" };', /there is no setting 'tenat'; did you mean 'tenant'\?/],
  [
    'far.config.js',
    'module.exports = { somethingElse: 1 };',
    /there is no setting 'somethingElse'; known are databaseUrl, /,
  ],
  [
    'tool.config.js',
    "module.exports = { tools: [{ kind: 'a' }] };",
    /'tools' holds something that is no tool, .* \('a'\); make it with defineTool/,
  ],
  [
    'url.config.js',
    "module.exports = { databaseUrl: 'mysql://me:hush@there/x' };",
    /'databaseUrl' must be the address of a Postgres(?!.*hush)/,
  ],
  [
    'deny.config.js',
    "module.exports = { addresses: { denny: ['x'] } };",
    /no setting 'addresses\.denny'; did you mean 'deny'\?/,
  ],
  [
    'refuse.config.js',
    "module.exports = { addresses: { refuse: ['loopbak'] } };",
    /'addresses\.refuse' must be a list of public, /,
  ],
  ['folders.config.js', 'module.exports = { playbooks: [1] };', /'playbooks' must be a list of texts/],
  ['temporal.config.js', "module.exports = { temporal: { adress: 'x' } };", /there is no setting 'temporal\.adress'/],
])('%s is refused with a code and the place', async (name, text, message) => {
  await writeFile(join(folder, name), text);
  const { stderr, code } = await cli('runs', '--config', name);
  expect(stderr).toMatch(/^error CONFIG_INVALID: /);
  expect(stderr).toMatch(message);
  expect(code).toBe(78);
});

test('a DATABASE_URL that is none is refused before anybody is called, and is not shown', async () => {
  const { stderr, code } = await runCli(['runs'], { cwd: folder, env: { DATABASE_URL: 'me:hush@there' } });
  expect(stderr).toContain('error CONFIG_INVALID: DATABASE_URL must be the address of a Postgres');
  expect(stderr).not.toContain('hush');
  expect(code).toBe(78);
});
