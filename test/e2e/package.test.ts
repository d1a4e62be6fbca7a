import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ROOT } from './cli.fixture.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 600_000 });

interface Packed {
  readonly filename: string;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

/** Pages at the root, which lead to the others. */
const PAGES = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'];

let home: string;
let project: string;
let packed: Packed;

/** Packs what `npm pack` would, from a copy in which it is built, and installs it into a project that has nothing else. */
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'runledger-package-'));
  // Root's server runs as another account, to which a temporary folder is closed.
  chmodSync(home, 0o755);
  const stage = join(home, 'stage');
  mkdirSync(stage);
  for (const path of ['package.json', 'LICENSE', 'schemas', 'examples', 'docs', ...PAGES])
    cpSync(join(ROOT, path), join(stage, path), { recursive: true });
  execFileSync(process.execPath, [join(ROOT, 'scripts/build.mjs'), join(stage, 'dist'), '--noCheck']);
  [packed] = JSON.parse(npm(['pack', '--json', '--ignore-scripts', '--pack-destination', home], stage)) as [Packed];
  project = join(home, 'project');
  mkdirSync(project);
  npm(['init', '--yes'], project);
  npm(['install', '--prefer-offline', '--no-audit', '--no-fund', join(home, packed.filename)], project);
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

function npm(args: readonly string[], cwd: string): string {
  return execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], env: environment() });
}

/** Nothing of the tests' own npm: only where it finds packages. */
function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(npm_(?!config_)|NODE_|VITEST|TEST$|DATABASE_URL|RUNLEDGER_)/.test(name),
  );
  // What npm itself has to say about its settings is not ours.
  return { ...Object.fromEntries(kept), LANG: 'C.UTF-8', npm_config_loglevel: 'error' };
}

const npx = (...args: string[]) =>
  spawnSync('npx', ['--no-install', 'runledger', ...args], { cwd: project, encoding: 'utf8', env: environment() });

test('the package holds what is built, the schemas, the examples and the documentation, and nothing of the tests', () => {
  const paths = packed.files.map(({ path }) => path);
  const others = paths.filter((path) => !/^(dist|schemas|examples|docs)\//.test(path));
  expect(others.sort()).toEqual([...PAGES, 'LICENSE', 'package.json'].sort());
  expect(paths.filter((path) => /\.(test|fixture)\./.test(path))).toEqual([]);
  expect(paths).toContain('dist/third-party-notices.txt');
  const { bin, exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    bin: Record<string, string>;
    exports: Record<string, string | { types: string; default: string }>;
  };
  const named = Object.values(exports).flatMap((entry) =>
    typeof entry === 'string' ? [entry] : [entry.types, entry.default],
  );
  for (const path of [...Object.values(bin), ...named]) expect(paths).toContain(path.replace(/^\.\//, ''));
});

test('every page of the package leads to files that are in it', () => {
  const installed = join(project, 'node_modules/runledger');
  const pages = [...PAGES, ...packed.files.map(({ path }) => path).filter((path) => /^docs\/.*\.md$/.test(path))];
  expect(pages.length).toBeGreaterThan(20);
  let count = 0;
  for (const page of pages) {
    const links = [...readFileSync(join(installed, page), 'utf8').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)];
    for (const [, target = ''] of links.filter(([, to = '']) => !/^\w+:/.test(to))) {
      expect(existsSync(join(installed, dirname(page), target)), `${page} leads to ${target}`).toBe(true);
      count++;
    }
  }
  expect(count).toBeGreaterThan(30);
});

test('the examples that help shows work in a project that has only installed the package', () => {
  const shown = ['run', 'compile'].flatMap((command) => {
    const lines = npx(command, '--help')
      .stdout.split('\n')
      .map((line) => line.trim());
    return lines.filter((line) => /^runledger .*\.yaml/.test(line) && !line.includes('--watch'));
  });
  expect(shown.length).toBeGreaterThan(3);
  for (const line of shown) {
    expect(line).toMatch(/node_modules\/runledger\/examples\/\w+\.yaml/);
    expect(npx(...line.split(' ').slice(1)), line).toMatchObject({ status: 0, stderr: '' });
  }
});

test('the package is no larger, and brings no more packages, than the README says', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const [, megabytes, count] = /unpacks to ([\d.]+) MB and brings (\d+) packages/.exec(readme)!;
  const { packages } = JSON.parse(readFileSync(join(project, 'node_modules/.package-lock.json'), 'utf8')) as {
    packages: Record<string, { optional?: boolean }>;
  };
  const brought = Object.entries(packages).filter(
    ([path, { optional }]) => path !== 'node_modules/runledger' && !optional,
  );
  console.log(`unpacked ${packed.unpackedSize} bytes, ${brought.length} packages`);
  expect(packed.unpackedSize).toBeLessThanOrEqual(Number(megabytes) * 1e6);
  expect(brought.length).toBeLessThanOrEqual(Number(count));
});

test('in a project with nothing else the command makes a project, runs it, looks into it and proves it', () => {
  expect(npx('version').stdout).toMatch(/^runledger \d+\.\d+\.\d+ /);
  expect(npx('init')).toMatchObject({ status: 0, stderr: '' });
  const run = npx('run', 'playbooks/hello.yaml', '--set', 'name=Ada', '--json');
  expect(run.stderr).toBe('');
  expect(JSON.parse(run.stdout)).toMatchObject({ status: 'COMPLETED', result: 'HELLO, ADA!' });
  expect(JSON.parse(npx('run', 'playbooks/orders.yaml', '--json').stdout)).toMatchObject({ result: { total: 145 } });
  for (const command of ['status', 'events', 'result', 'replay', 'verify', 'logs'])
    expect(npx(command, 'latest')).toMatchObject({ status: 0, stderr: '' });
  expect(npx('doctor')).toMatchObject({ status: 0 });
});

test('what the language runs in other processes works from the package', () => {
  writeFileSync(
    join(project, 'programs.yaml'),
    `apiVersion: runledger/v1
kind: Playbook
metadata: {name: programs, version: "1"}
workflow:
  - {step: start, tool: {kind: javascript, code: "return {n: 20 + 1};"}, next: {arcs: [{step: py}]}}
  - {step: py, tool: {kind: python, code: "def main(n):\\n    return {'n': n * 2}", args: {n: "{{ start.n }}"}}}
`,
  );
  const { stdout, stderr } = npx('run', 'programs.yaml', '--json');
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toMatchObject({ status: 'COMPLETED', result: { n: 42 } });
});

test('every export loads; those that extend a test runner say what is missing', () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, unknown>;
  };
  for (const path of Object.keys(exports).filter((name) => name !== './package.json')) {
    const specifier = path.replace(/^\./, 'runledger');
    const code = `import('${specifier}').then((m) => console.log(Object.keys(m).length), (e) => console.log(e.code, e.message))`;
    const { stdout } = spawnSync(process.execPath, ['-e', code], {
      cwd: project,
      encoding: 'utf8',
      env: environment(),
    });
    if (path.endsWith('-suite'))
      expect(stdout, specifier).toMatch(/^\d+\n$|ERR_MODULE_NOT_FOUND .*'(vitest|fast-check)'/);
    else expect(Number(stdout), specifier).toBeGreaterThan(0);
  }
});

test('the kernel in the package reaches nothing of Node', () => {
  const seen = new Set<string>();
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    const text = readFileSync(file, 'utf8');
    for (const [, from, bare] of text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)) {
      const specifier = from ?? bare ?? '';
      if (specifier.startsWith('.')) visit(resolve(dirname(file), specifier));
      else expect(specifier, file).not.toMatch(/^node:/);
    }
  };
  visit(join(project, 'node_modules/runledger/dist/exports/kernel.js'));
  expect(seen.size).toBeGreaterThan(1);
  expect(existsSync(join(project, 'node_modules/runledger/dist/exports/kernel.d.ts'))).toBe(true);
});
