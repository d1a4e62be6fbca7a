import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ROOT } from './cli.fixture.ts';

const own = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  readonly dependencies: Record<string, string>;
  readonly optionalDependencies: Record<string, string>;
  readonly exports: Record<string, unknown>;
};
let project: string;

/** A project that has the package as it is published, what it depends on, and nothing else. */
beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), 'runledger-types-'));
  chmodSync(project, 0o755);
  const home = join(project, 'node_modules/runledger');
  execFileSync(process.execPath, [join(ROOT, 'scripts/build.mjs'), join(home, 'dist')], { stdio: 'inherit' });
  cpSync(join(ROOT, 'package.json'), join(home, 'package.json'));
  link(...Object.keys({ ...own.dependencies, ...own.optionalDependencies }));
  writeFileSync(join(project, 'package.json'), '{"type": "commonjs"}');
}, 600_000);
afterAll(() => rmSync(project, { recursive: true, force: true, maxRetries: 5 }));

function link(...names: string[]): void {
  // Packages of other platforms are not here.
  for (const name of names.filter((each) => existsSync(join(ROOT, 'node_modules', each)))) {
    const place = join(project, 'node_modules', name);
    mkdirSync(dirname(place), { recursive: true });
    if (!existsSync(place)) symlinkSync(join(ROOT, 'node_modules', name), place);
  }
}

function run(folder: string, ...args: string[]): { readonly code: number | null; readonly output: string } {
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, LANG: 'C.UTF-8' };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' });
  return { code: status, output: `${stdout}${stderr}` };
}

test('every export has types that stand without those of any other package but Node, and they say what the library does', {
  timeout: 300_000,
}, () => {
  link('@types/node');
  const names = Object.keys(own.exports).filter((name) => name !== './package.json');
  const lines = names.map((name, i) => {
    const specifier = name.replace(/^\./, 'runledger');
    return `import type * as entry${i} from '${specifier}';\nexport type Entry${i} = keyof typeof entry${i};`;
  });
  const use = `import { createRuntime, defineTool, Type } from 'runledger';
const tool = defineTool({ kind: 'a', input: Type.Object({ n: Type.Number() }), effect: 'compute', run: ({ n }) => n.toFixed() });
const run = await (await createRuntime({ tools: [tool] })).start('x.yaml');
export const status = (await run.ended()).status satisfies 'COMPLETED' | 'FAILED' | 'CANCELLED';
// @ts-expect-error There is no such option.
await createRuntime({ databaseURL: 'x' });
`;
  writeFileSync(join(project, 'types.mts'), `${lines.join('\n')}\n${use}`);
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const flags = [
    '--noEmit',
    '--strict',
    '--exactOptionalPropertyTypes',
    '--module',
    'nodenext',
    '--target',
    'es2023',
    '--types',
    'node',
  ];
  expect(run(project, tsc, ...flags, 'types.mts')).toEqual({ code: 0, output: '' });
});

test('a configuration in TypeScript, and the tool beside it, are read by the published package', {
  timeout: 120_000,
}, () => {
  const folder = join(project, 'custom');
  cpSync(join(ROOT, 'examples/custom-tool'), folder, { recursive: true });
  const main = join(project, 'node_modules/runledger/dist/cli/main.js');
  const { code, output } = run(folder, main, 'run', 'publish.yaml', '--json');
  expect(output).toContain('"result": "/posts/creme-brulee-and-how-to-prove-it"');
  expect(code).toBe(0);
});
