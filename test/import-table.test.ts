import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

/** Who may import whom: a folder of src, and the folders that its files may import besides their own. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  contracts: [],
  lib: ['contracts'],
  kernel: ['contracts', 'lib'],
  compiler: ['contracts', 'lib', 'kernel'],
  store: ['contracts', 'lib', 'kernel'],
  tools: ['contracts', 'lib'],
  projector: ['contracts', 'lib', 'kernel', 'store'],
  worker: ['contracts', 'lib', 'kernel', 'compiler', 'store', 'projector', 'tools'],
  engines: ['contracts', 'lib', 'kernel', 'compiler', 'store', 'projector', 'tools', 'worker'],
  // An adapter to a foreign engine sees what anybody who writes one sees.
  'engines/temporal': ['exports'],
  runtime: [
    'contracts',
    'lib',
    'kernel',
    'compiler',
    'store',
    'projector',
    'tools',
    'worker',
    'engines',
    'engines/temporal',
  ],
  cli: ['contracts', 'lib', 'kernel', 'compiler', 'store', 'projector', 'tools', 'worker', 'engines', 'runtime'],
  testing: ['tools', 'contracts', 'lib', 'kernel', 'compiler', 'store', 'projector', 'worker', 'engines', 'runtime'],
  exports: [
    'tools',
    'contracts',
    'lib',
    'kernel',
    'compiler',
    'store',
    'projector',
    'worker',
    'engines',
    'testing',
    'runtime',
  ],
};

/** Folders whose files, and everything that these import, run in a browser or a workflow sandbox. */
const PURE = ['contracts', 'kernel'];

/** Packages, and the only folders that may load them. Optional SDKs have one owner each. */
const PACKAGE_OWNERS: Record<string, readonly string[]> = {
  typebox: ['contracts', 'compiler', 'store', 'tools', 'worker', 'engines', 'testing', 'exports'],
  '@huggingface/jinja': ['kernel/expressions'],
  '@noble/hashes': ['kernel/expressions', 'kernel'],
  re2js: ['kernel/expressions'],
  yaml: ['compiler', 'runtime'],
  pg: ['store', 'tools/postgres'],
  '@duckdb/node-api': ['tools/duckdb'],
  '@temporalio/activity': ['engines/temporal'],
  '@temporalio/client': ['engines/temporal'],
  '@temporalio/common': ['engines/temporal'],
  '@temporalio/worker': ['engines/temporal'],
  '@temporalio/workflow': ['engines/temporal'],
  vitest: ['testing'],
  'fast-check': ['testing'],
};

const SRC = resolve(import.meta.dirname, '../src');

interface SourceFile {
  readonly path: string;
  readonly folder: string;
  readonly imports: readonly string[];
}

function sourceFiles(): SourceFile[] {
  return readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !/\.(test|fixture)\.ts$/.test(path))
    .map((path) => ({
      path,
      folder: folderOf(path),
      imports: importsOf(readFileSync(join(SRC, path), 'utf8')),
    }));
}

/** The folder that the table names: its first part, or more where a part of a folder has a row of its own. */
function folderOf(path: string): string {
  const parts = path.split('/');
  const inner = parts.slice(0, 2).join('/');
  return inner in MAY_IMPORT ? inner : (parts[0] as string);
}

function importsOf(text: string): string[] {
  const pattern =
    /(?:^|\n)\s*(?:import|export)\s(?:[^'";]*?\sfrom\s)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/g;
  return [...text.matchAll(pattern)].map((match) => (match[1] ?? match[2]) as string);
}

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
const target = (file: SourceFile, specifier: string): string =>
  relative(SRC, resolve(SRC, dirname(file.path), specifier));

const files = sourceFiles();
const byPath = new Map(files.map((file) => [file.path, file]));

describe('imports', () => {
  test('every folder of src is in the table', () => {
    expect([...new Set(files.map((file) => file.folder))].filter((folder) => !(folder in MAY_IMPORT))).toEqual([]);
  });

  test('a folder imports only what the table allows', () => {
    const wrong = files.flatMap((file) =>
      file.imports
        .filter((specifier) => specifier.startsWith('.'))
        .map((specifier) => target(file, specifier))
        .filter((path) => {
          const folder = folderOf(path);
          return folder !== file.folder && !MAY_IMPORT[file.folder]?.includes(folder);
        })
        .map((path) => `${file.path} imports ${path}`),
    );
    expect(wrong).toEqual([]);
  });

  test('a package is loaded only by its owner', () => {
    const wrong = files.flatMap((file) =>
      file.imports
        .filter((specifier) => !specifier.startsWith('.') && !specifier.startsWith('node:'))
        .filter(
          (specifier) => !PACKAGE_OWNERS[packageOf(specifier)]?.some((owner) => file.path.startsWith(`${owner}/`)),
        )
        .map((specifier) => `${file.path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test('nothing that a pure folder reaches imports node:* or touches clock, randomness or the process', () => {
    const reached = new Set<string>();
    const visit = (path: string): void => {
      const file = byPath.get(path);
      if (!file || reached.has(path)) return;
      reached.add(path);
      for (const specifier of file.imports) if (specifier.startsWith('.')) visit(target(file, specifier));
    };
    for (const file of files) if (PURE.includes(file.folder)) visit(file.path);
    const impure = [...reached].flatMap((path) => {
      const text = readFileSync(join(SRC, path), 'utf8');
      const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '');
      const found = [
        ...(byPath.get(path)?.imports.filter((specifier) => specifier.startsWith('node:')) ?? []),
        ...(code.match(
          /\b(?:Date\.now|new Date\(\)|Math\.random|process\.|setTimeout|setInterval|fetch\(|Buffer\.)/g,
        ) ?? []),
      ];
      return found.map((name) => `${path}: ${name}`);
    });
    expect(reached.size).toBeGreaterThan(5);
    expect(impure).toEqual([]);
  });
});
