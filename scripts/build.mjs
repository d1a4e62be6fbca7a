// Compiles src/ to dist/ and puts the SQL migrations beside the code that reads them.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
// An installed copy of the package has no compiler and is built already.
if (existsSync(tsc)) {
  rmSync(join(root, 'dist'), { recursive: true, force: true });
  execFileSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.build.json')], { stdio: 'inherit' });
  const sql = join(root, 'src', 'store', 'sql');
  if (existsSync(sql)) cpSync(sql, join(root, 'dist', 'store', 'sql'), { recursive: true });
}
