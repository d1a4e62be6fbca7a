// Compiles src/ to dist/ and puts files that are not TypeScript beside the code that reads them.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
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
  for (const path of readdirSync(join(root, 'src', 'tools'), { recursive: true, encoding: 'utf8' })) {
    if (/\.(py|mjs)$/.test(path)) cpSync(join(root, 'src', 'tools', path), join(root, 'dist', 'tools', path));
  }
}
