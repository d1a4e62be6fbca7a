// Compiles src/ to dist/, or to the folder that is given, and puts what is not TypeScript beside the code that reads it.
// Further arguments go to the compiler.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const [folder, ...flags] = process.argv.slice(2);
const out = folder === undefined ? join(root, 'dist') : resolve(folder);
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
// An installed copy of the package has no compiler and is built already.
if (existsSync(tsc)) {
  rmSync(out, { recursive: true, force: true });
  const project = join(root, 'tsconfig.build.json');
  execFileSync(process.execPath, [tsc, '-p', project, '--outDir', out, ...flags], { stdio: 'inherit' });
  const migrations = join('store', 'sql', 'migrations');
  cpSync(join(root, 'src', migrations), join(out, migrations), { recursive: true });
  for (const path of readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (/\.(py|mjs)$/.test(path)) cpSync(join(root, 'src', path), join(out, path));
  }
  chmodSync(join(out, 'cli', 'main.js'), 0o755);
  if (folder === undefined && process.platform !== 'win32') linkCommand();
}

/** npm links the command into projects that install the package, but not into its own clone, where `npx` looks for it. */
function linkCommand() {
  const link = join(root, 'node_modules', '.bin', 'runledger');
  mkdirSync(dirname(link), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync(join('..', '..', 'dist', 'cli', 'main.js'), link);
}
