// Proves the tree: format, lint, types, generated files, dead exports, tests. Stops at the first thing that is wrong.
import { spawnSync } from 'node:child_process';

const steps = [
  ['format and lint', 'npx', ['biome', 'check', '--error-on-warnings', '.']],
  ['types', 'npx', ['tsc', '-p', 'tsconfig.json', '--noEmit']],
  ['generated files', process.execPath, ['--import', 'tsx', 'scripts/generate.ts', '--check']],
  ['dead exports', 'npx', ['knip']],
  ['tests', 'npx', ['vitest', 'run']],
];
for (const [name, command, args] of steps) {
  if (name === 'tests' && process.argv.includes('--no-tests')) continue;
  console.log(`--- ${name}`);
  const { status } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) {
    console.error(`check failed: ${name}`);
    process.exit(1);
  }
}
console.log('check passed');
