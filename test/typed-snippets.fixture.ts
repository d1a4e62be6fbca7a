import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');

/** What the compiler says of small files that import the library, by the name of the file. */
export function compilerErrors(files: Readonly<Record<string, string>>): Map<string, string[]> {
  // Inside the project, so that its own name resolves; the sources stand in for a build.
  const folder = mkdtempSync(join(ROOT, '.types-'));
  try {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    const compilerOptions = { customConditions: ['source'], noUnusedLocals: false, noUnusedParameters: false };
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ extends: '../tsconfig.json', compilerOptions, include: ['**/*.ts'] }),
    );
    const { stdout } = spawnSync(process.execPath, [TSC, '-p', folder, '--pretty', 'false'], { encoding: 'utf8' });
    const errors = new Map<string, string[]>();
    let last: string[] = [];
    for (const line of stdout.split('\n')) {
      const [, path, at, message] = /^(.*?)\((\d+),\d+\): error (.*)$/.exec(line) ?? [];
      if (path !== undefined) {
        const name = path.slice(path.lastIndexOf('.types-')).split('/').slice(1).join('/') || path;
        last = [...(errors.get(name) ?? []), `line ${at}: ${message}`];
        errors.set(name, last);
      } else if (line.trim() !== '' && last.length > 0) last[last.length - 1] += ` ${line.trim()}`;
    }
    return errors;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
