import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '..');

test('the example of the README runs as it stands and prints what it says', async () => {
  const readme = await readFile(join(root, 'README.md'), 'utf8');
  const code = /```ts\n([\s\S]*?)```/.exec(readme)?.[1] ?? '';
  const said = [...code.matchAll(/console\.log\(.*\); \/\/ (.*)/g)].map((match) => match[1]);
  expect(said).toHaveLength(3);
  // Inside the project, so that its own name resolves; the sources stand in for a build.
  const folder = await mkdtemp(join(root, '.readme-'));
  try {
    await writeFile(join(folder, 'example.mjs'), code);
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--conditions=source', '--import', 'tsx', 'example.mjs'],
      { cwd: folder },
    );
    expect(stdout.trim().split('\n')).toEqual(said);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
