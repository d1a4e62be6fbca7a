import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import pg from 'pg';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { compileSync } from '../../src/compiler/compile.ts';
import { loadSettings } from '../../src/runtime/config.ts';
import { builtCli } from '../e2e/cli.fixture.ts';
import { shellWithCli } from '../e2e/shell.fixture.ts';
import { createTestDatabase } from '../setup/database.ts';
import { compilerErrors } from '../typed-snippets.fixture.ts';
import { consoleSteps, type DocBlock, docBlocks, plain, printsAs } from './doc-blocks.fixture.ts';
import { DocShell } from './doc-shell.fixture.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 240_000 });

const ROOT = resolve(import.meta.dirname, '../..');
/** Written from the code, which has tests of its own. */
const GENERATED = ['capabilities.md', 'cli.md', 'errors.md', 'events.md', 'plan-versions.md', 'examples.md'];
/** Its commands are benchmarks, which take an hour and other people's servers. */
const MEASURED = ['performance.md'];
const DOCUMENTS = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md') && !GENERATED.includes(name) && !MEASURED.includes(name))
    .map((name) => `docs/${name}`),
];
const read = (document: string): string => readFileSync(join(ROOT, document), 'utf8');
const blocksOf = (document: string): DocBlock[] =>
  docBlocks(read(document)).filter((block): block is DocBlock => 'language' in block);

beforeAll(() => {
  builtCli();
});

/** A folder as a reader has it who cloned the project, or installed the package, and typed nothing else yet. */
async function readersFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-docs-'));
  // Where the tests run as root, the embedded server is another account's, to which a temporary folder is closed.
  chmodSync(folder, 0o755);
  cpSync(join(ROOT, 'examples'), join(folder, 'examples'), { recursive: true });
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(dirname(dirname(dirname(builtCli()))), join(folder, 'node_modules/runledger'));
  symlinkSync(join(ROOT, 'node_modules/vitest'), join(folder, 'node_modules/vitest'));
  return folder;
}

/** Documents that speak of a server of the reader's own have one. */
const OWN_DATABASE = ['docs/operating.md', 'docs/postgres-roles.md'];

describe('documents do what they say', () => {
  test.each(DOCUMENTS)('%s', { timeout: 600_000 }, async (document) => {
    const folder = await readersFolder();
    const database = OWN_DATABASE.includes(document) ? await createTestDatabase({ empty: true }) : undefined;
    const shell = new DocShell(folder, shellWithCli(folder, database ? { DATABASE_URL: database.url } : {}).env);
    try {
      for (const block of docBlocks(read(document))) {
        const place = `${document}:${block.line}`;
        if ('hidden' in block) {
          const { code, output } = await shell.type(block.hidden);
          expect(code, `${place}\n${output}`).toBe(0);
          continue;
        }
        if (block.notRun !== undefined) continue;
        if (block.file !== undefined) {
          mkdirSync(dirname(join(folder, block.file)), { recursive: true });
          writeFileSync(join(folder, block.file), block.text);
        } else if (block.language === 'sh') {
          const { code, output } = await shell.type(block.text);
          expect(code, `${place}\n${output}`).toBe(block.exit);
        } else if (block.language === 'console') {
          for (const { command, prints } of consoleSteps(block.text)) {
            const { output } = await shell.type(command);
            expect(`${plain(output)}\n`, `${place}: ${command}`).toMatch(printsAs(prints));
          }
        } else if (block.language === 'sql') {
          const client = new pg.Client({ connectionString: database?.url ?? 'no database' });
          await client.connect();
          try {
            await client.query(block.text.replaceAll('mydb', new URL(database!.url).pathname.slice(1)));
          } finally {
            await client.end();
          }
        }
      }
    } finally {
      await shell.close();
      await database?.drop();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});

describe('what the documents show', () => {
  test('every playbook, step and task compiles', () => {
    for (const document of DOCUMENTS) {
      for (const { language, text, line, notRun } of blocksOf(document)) {
        if (language !== 'yaml' || notRun !== undefined) continue;
        const result = compileSync(
          { text: asPlaybook(text), file: basename(document) },
          { tools: { slug: {}, greet: {}, sms: {} }, resolve: () => ({ text: CHILD, file: 'child.yaml' }) },
        );
        const problems = result.ok ? [] : result.problems.map(({ message }) => message);
        expect(problems, `${document}:${line}`).toEqual([]);
      }
    }
  });

  test('every piece of TypeScript is right for the compiler', { timeout: 300_000 }, () => {
    const files: Record<string, string> = {};
    for (const document of DOCUMENTS) {
      const folder = basename(document, '.md');
      for (const { language, text, line, file } of blocksOf(document)) {
        if (language !== 'ts') continue;
        files[`${folder}/${file?.replace(/\.m?[jt]s$/, '.ts') ?? `line-${line}.ts`}`] = text;
      }
    }
    for (const file of ['runledger.config.ts', 'tools/slug.ts'])
      files[`custom-tool/${file}`] = read(`examples/custom-tool/${file}`);
    expect(Object.keys(files).length).toBeGreaterThan(5);
    expect(Object.fromEntries(compilerErrors(files))).toEqual({});
  });

  test('a block that is not executed says why, and everything else is executed', () => {
    for (const document of DOCUMENTS) {
      for (const { language, line, file, notRun } of blocksOf(document)) {
        const place = `${document}:${line}`;
        expect(['sh', 'console', 'yaml', 'ts', 'sql', 'text', 'mermaid', 'json'], place).toContain(language);
        if (language === 'ts' && notRun === undefined) expect(file, `${place} is put into no file`).toBeDefined();
      }
    }
  });

  test('every setting and every variable that the configuration reads is in configuration.md', async () => {
    const page = read('docs/configuration.md');
    const refused = await loadSettings({ configFile: false, given: { surprise: 1 } as object }).catch((error) => error);
    const [, known = ''] = /known are (.*)$/.exec((refused as Error).message) ?? [];
    const settings = known.split(/, /);
    expect(settings.length).toBeGreaterThan(9);
    expect(settings.filter((name) => !new RegExp(`\\b${name}\\b`).test(page))).toEqual([]);
    const sources = ['config.ts', 'temporal-config.ts'].map((file) => read(`src/runtime/${file}`)).join('\n');
    const variables = [...sources.matchAll(/(?:text\(env, |read\()'([A-Z_]+)'/g)].map((match) => match[1]!);
    // What says which characters a terminal has is for nobody to set because of us.
    const ours = variables.filter((name) => !/^(LC_ALL|LC_CTYPE|LANG|CI|WT_SESSION)$/.test(name));
    expect(ours).toContain('DATABASE_URL');
    expect(ours.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });

  test('every link leads somewhere', () => {
    const documents = [...DOCUMENTS, ...GENERATED.map((name) => `docs/${name}`), 'ARCHITECTURE.md', 'CONTRIBUTING.md'];
    const broken: string[] = [];
    for (const document of documents) {
      for (const [, target] of read(document).matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^https?:/.test(target!)) continue;
        const [path, anchor] = target!.split('#');
        const file = path === '' ? document : join(dirname(document), path!);
        try {
          const text = readdirSync(join(ROOT, dirname(file))).includes(basename(file)) ? '' : undefined;
          if (text === undefined) throw new Error('no such file');
          if (anchor && !headings(read(file)).includes(anchor)) throw new Error('no such heading');
        } catch {
          broken.push(`${document}: ${target}`);
        }
      }
    }
    expect(broken).toEqual([]);
  });
});

const headings = (text: string): string[] =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
    title!
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );

const HEAD = 'apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: shown}\n';
const CHILD = `${HEAD}workflow:\n  - {step: start, tool: {kind: noop}}\n`;

/** A playbook as it stands; steps, a step's parts or a task become one. */
function asPlaybook(text: string): string {
  const indented = (spaces: number): string => text.replace(/^(?=.)/gm, ' '.repeat(spaces));
  if (/^apiVersion:/m.test(text)) return text;
  if (/^- step:/m.test(text)) return `${HEAD}workflow:\n${indented(2)}`;
  if (/^(keychain|workload|workbook|executor):/m.test(text)) return `${HEAD}${text}`;
  if (/^kind:/m.test(text)) return `${HEAD}workflow:\n  - step: start\n    tool:\n${indented(6)}`;
  return `${HEAD}workflow:\n  - step: start\n${indented(4)}`;
}
