// Compiles src/ to dist/, or to the folder that is given (with further flags of tsc), and puts what is not TypeScript beside the code that reads it.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const out = process.argv[2] === undefined ? join(root, 'dist') : resolve(process.argv[2]);
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
// An installed copy of the package has no compiler and is built already.
if (existsSync(tsc)) {
  rmSync(out, { recursive: true, force: true });
  execFileSync(
    process.execPath,
    [tsc, '-p', join(root, 'tsconfig.build.json'), '--outDir', out, ...process.argv.slice(3)],
    {
      stdio: 'inherit',
    },
  );
  const sql = join(root, 'src', 'store', 'sql');
  if (existsSync(sql)) cpSync(sql, join(out, 'store', 'sql'), { recursive: true });
  for (const path of readdirSync(join(root, 'src', 'tools'), { recursive: true, encoding: 'utf8' })) {
    if (/\.(py|mjs)$/.test(path)) cpSync(join(root, 'src', 'tools', path), join(out, 'tools', path));
  }
  // npm makes it executable in projects that install the package, but not in a clone.
  chmodSync(join(out, 'cli', 'main.js'), 0o755);
}
