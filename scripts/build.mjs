// Builds dist/, or the folder that is given: types from the compiler, modules from the bundler, and what is not TypeScript at
// the place where the code looks for it. `--no-types` leaves the types out; further arguments go to the compiler.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundle } from './bundle.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const [folder, ...flags] = process.argv.slice(2);
const out = folder === undefined ? join(root, 'dist') : resolve(folder);
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
// An installed copy of the package has no compiler and is built already.
if (existsSync(tsc)) {
  rmSync(out, { recursive: true, force: true });
  if (!flags.includes('--no-types')) declareTypes();
  await bundle(root, out);
  const migrations = join('store', 'sql', 'migrations');
  cpSync(join(root, 'src', migrations), join(out, migrations), { recursive: true });
  for (const path of readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (/\.(py|mjs)$/.test(path)) cpSync(join(root, 'src', path), join(out, path));
  }
  chmodSync(join(out, 'cli', 'main.js'), 0o755);
  if (folder === undefined && process.platform !== 'win32') linkCommand();
}

/** Declarations of what the exports lead to; those of the inside would only be weight. */
function declareTypes() {
  const project = join(root, 'tsconfig.build.json');
  execFileSync(process.execPath, [tsc, '-p', project, '--outDir', out, '--emitDeclarationOnly', ...flags], {
    stdio: 'inherit',
  });
  const needed = new Set();
  const visit = (file) => {
    if (needed.has(file) || !existsSync(file)) return;
    needed.add(file);
    for (const [, path] of readFileSync(file, 'utf8').matchAll(/['"](\.{1,2}\/[^'"]+?)\.[jt]s['"]/g))
      visit(`${resolve(dirname(file), path)}.d.ts`);
  };
  for (const file of readdirSync(join(out, 'exports'))) visit(join(out, 'exports', file));
  for (const path of readdirSync(out, { recursive: true, encoding: 'utf8' })) {
    if (path.endsWith('.d.ts') && !needed.has(join(out, path))) rmSync(join(out, path));
  }
  removeEmpty(out);
}

function removeEmpty(path) {
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) removeEmpty(join(path, entry.name));
  }
  if (readdirSync(path).length === 0) rmdirSync(path);
}

/** npm links the command into projects that install the package, but not into its own clone, where `npx` looks for it. */
function linkCommand() {
  const link = join(root, 'node_modules', '.bin', 'runledger');
  mkdirSync(dirname(link), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync(join('..', '..', 'dist', 'cli', 'main.js'), link);
}
