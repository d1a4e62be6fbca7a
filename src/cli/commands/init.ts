import { randomUUID } from 'node:crypto';
import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { AppError } from '../../contracts/errors.ts';
import { makeFolder } from '../../lib/make-folder.ts';
import { isOnPath } from '../../runtime/config.ts';
import type { Command } from '../context.ts';
import { initFiles } from '../init-files.ts';
import { shellWord } from '../next-command.ts';
import { isDiskFull } from '../report-error.ts';

export const init: Command = async ({ args, terminal }) => {
  const given = args.positionals[0] ?? '.';
  const folder = resolve(given);
  const files = Object.entries(initFiles(projectName(folder)));
  // All are looked at before one is written. What is there already and the same is kept: a killed `init` can be repeated.
  const missing = files.filter(([path, text]) => !isThere(folder, path, text));
  for (const [path, text] of missing) write(join(folder, path), text);
  const written = missing.map(([path]) => path);
  const kept = files.map(([path]) => path).filter((path) => !written.includes(path));
  if (terminal.json) {
    terminal.printJson({ folder, written, kept });
    return 0;
  }
  for (const path of written) terminal.print(`${terminal.paint('green', terminal.symbols.done)} ${path}`);
  for (const path of kept)
    terminal.print(terminal.paint('dim', `${terminal.symbols.skipped} ${path} is there already`));
  terminal.print('\nnext:');
  if (folder !== process.cwd()) terminal.print(`  cd ${shellWord(given)}`);
  const command = isOnPath('runledger') ? 'runledger' : 'npx runledger';
  terminal.print(`  ${command} run playbooks/hello.yaml`);
  terminal.print(`  ${command} run playbooks/orders.yaml`);
  terminal.print(`  ${command} compile playbooks/orders.yaml --explain`);
  return 0;
};

function isThere(folder: string, path: string, text: string): boolean {
  const file = join(folder, path);
  try {
    // A link that leads nowhere would be written through.
    if (!existsSync(file)) return false;
    if (readFileSync(file, 'utf8') === text) return true;
  } catch (error) {
    throw new AppError(
      'FILE_EXISTS',
      `${file} is there and cannot be read (${(error as NodeJS.ErrnoException).code}).`,
    );
  }
  throw new AppError('FILE_EXISTS', `${file} is there already and is not what init would write; nothing was changed.`, {
    file,
  });
}

/** The file is there whole or not at all, and never takes the place of another one. */
function write(file: string, text: string): void {
  const unfinished = `${file}.${randomUUID().slice(0, 8)}.tmp`;
  try {
    makeFolder(dirname(file));
    writeFileSync(unfinished, text, { flag: 'wx' });
    linkSync(unfinished, file);
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    if (isDiskFull(error)) throw error;
    throw new AppError('FILE_NOT_WRITABLE', `${file} cannot be written (${code}).`, { file }, { cause: error });
  } finally {
    rmSync(unfinished, { force: true });
  }
}

/** The name of the folder, as far as it can stand in the configuration. */
function projectName(folder: string): string {
  return (
    basename(folder)
      .replace(/[^A-Za-z0-9._-]+/g, '-')
      .replace(/^[-.]+|[-.]+$/g, '') || 'default'
  );
}
