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

interface LockedPackage {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const lock = (JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: object })
  .packages as Readonly<Record<string, LockedPackage>>;
const own = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  readonly dependencies: Record<string, string>;
  readonly optionalDependencies: Record<string, string>;
  readonly exports: Record<string, unknown>;
};
let folder: string;
let project: string;
let packed: { unpackedSize: number; files: { path: string }[] };

/** Everything that a plain install brings along, by its place in node_modules. */
function installed(names: readonly string[], from = '', found = new Set<string>()): Set<string> {
  for (const name of names) {
    let base = from;
    while (base !== '' && !lock[`${base}/node_modules/${name}`])
      base = base.slice(0, Math.max(0, base.lastIndexOf('/node_modules/')));
    const place = base === '' ? `node_modules/${name}` : `${base}/node_modules/${name}`;
    if (!lock[place] || found.has(place)) continue;
    found.add(place);
    installed(Object.keys({ ...lock[place].dependencies, ...lock[place].optionalDependencies }), place, found);
  }
  return found;
}

/** What `npm install` makes of the packed package in an empty project, without asking a registry. */
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-package-'));
  chmodSync(folder, 0o755);
  const source = join(folder, 'source');
  execFileSync(process.execPath, [join(ROOT, 'scripts/build.mjs'), join(source, 'dist')], { stdio: 'inherit' });
  for (const name of ['package.json', 'README.md', 'LICENSE', 'schemas'])
    cpSync(join(ROOT, name), join(source, name), { recursive: true });
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
  const said = JSON.parse(
    execFileSync('npm', args, { cwd: source, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
  );
  packed = Array.isArray(said) ? said[0] : Object.values(said)[0];
  project = join(folder, 'project');
  const home = join(project, 'node_modules/runledger');
  mkdirSync(home, { recursive: true });
  const tarball = join(folder, (packed as unknown as { filename: string }).filename);
  execFileSync('tar', ['-xzf', tarball, '-C', home, '--strip-components=1']);
  for (const place of installed(Object.keys({ ...own.dependencies, ...own.optionalDependencies }))) {
    // What lies inside of another package comes with it, and packages of other platforms are not here.
    if (place.split('node_modules/').length > 2 || !existsSync(join(ROOT, place))) continue;
    mkdirSync(dirname(join(project, place)), { recursive: true });
    symlinkSync(join(ROOT, place), join(project, place));
  }
  mkdirSync(join(project, 'node_modules/.bin'));
  symlinkSync('../runledger/dist/cli/main.js', join(project, 'node_modules/.bin/runledger'));
  writeFileSync(join(project, 'package.json'), '{"type": "commonjs"}');
}, 240_000);
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

function inProject(command: string): { code: number | null; output: string } {
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH: `${join(project, 'node_modules/.bin')}:${PATH}`, HOME, LANG: 'C.UTF-8' };
  const { status, stdout, stderr } = spawnSync('bash', ['-c', command], { cwd: project, env, encoding: 'utf8' });
  return { code: status, output: `${stdout}${stderr}` };
}

test('the packed package runs playbooks in an empty project', { timeout: 120_000 }, () => {
  expect(inProject('runledger init . && runledger run playbooks/hello.yaml')).toMatchObject({
    code: 0,
    output: expect.stringContaining('COMPLETED'),
  });
});

test('it reads a configuration in TypeScript and a tool beside it', { timeout: 120_000 }, () => {
  cpSync(join(ROOT, 'examples/custom-tool'), join(project, 'custom'), { recursive: true });
  const { code, output } = inProject('cd custom && runledger run publish.yaml --folder ../.runledger --json');
  expect(output).toContain('/posts/creme-brulee-and-how-to-prove-it');
  expect(code).toBe(0);
});

test('every export can be imported, and has types', { timeout: 120_000 }, () => {
  const entries = Object.keys(own.exports).filter((name) => name !== './package.json');
  const names = entries.map((name) => name.replace(/^\./, 'runledger'));
  // The suites are for vitest, which a project that uses them has.
  const plain = names.filter((name) => !name.includes('/testing/'));
  const text = plain.map((name) => `await import('${name}');`).join('\n');
  writeFileSync(join(project, 'imports.mjs'), `${text}\nconsole.log('all of them');\n`);
  expect(inProject('node imports.mjs')).toEqual({ code: 0, output: 'all of them\n' });

  symlinkSync(join(ROOT, 'node_modules/vitest'), join(project, 'node_modules/vitest'));
  mkdirSync(join(project, 'node_modules/@types'), { recursive: true });
  for (const name of ['node', 'pg'])
    symlinkSync(join(ROOT, 'node_modules/@types', name), join(project, 'node_modules/@types', name));
  const lines = names.map(
    (name, i) => `import type * as entry${i} from '${name}';\nexport type Entry${i} = keyof typeof entry${i};`,
  );
  const use = `import { createRuntime, defineTool, Type } from 'runledger';
export const tool = defineTool({ kind: 'a', input: Type.Object({ n: Type.Number() }), effect: 'compute', run: ({ n }) => n.toFixed() });
export const end = (await (await (await createRuntime({ tools: [tool] })).start('x.yaml')).ended()).status satisfies 'COMPLETED' | 'FAILED' | 'CANCELLED';`;
  writeFileSync(join(project, 'types.mts'), `${lines.join('\n')}\n${use}\n`);
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const flags = '--noEmit --strict --module nodenext --target es2023 --skipLibCheck --types node';
  expect(inProject(`"${process.execPath}" "${tsc}" ${flags} types.mts`)).toEqual({ code: 0, output: '' });
});

test('the package holds what it needs and nothing else, and the documentation says how much that is', () => {
  const paths = packed.files.map(({ path }) => path);
  expect(paths.filter((path) => !/^(dist|schemas)\/|^(package\.json|README\.md|LICENSE)$/.test(path))).toEqual([]);
  expect(paths.filter((path) => /\.(test|fixture)\.|\.map$/.test(path))).toEqual([]);
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const [, size, count] = /unpacks to ([\d.]+) MB and brings (\d+) packages/.exec(readme) ?? [];
  const actual = packed.unpackedSize / 1e6;
  expect(Math.abs(Number(size) - actual), `it is ${actual} MB`).toBeLessThan(0.25 * actual);
  expect(Number(count)).toBe(installed(Object.keys(own.dependencies)).size);
});
