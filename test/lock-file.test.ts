import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

interface Lock {
  readonly packages: Readonly<Record<string, { readonly optionalDependencies?: Readonly<Record<string, string>> }>>;
}

test('the lock file has the packages of every platform, without which npm ci refuses it', () => {
  const { packages } = JSON.parse(readFileSync(join(import.meta.dirname, '../package-lock.json'), 'utf8')) as Lock;
  const wanted = Object.values(packages).flatMap(({ optionalDependencies = {} }) =>
    Object.entries(optionalDependencies).filter(([, version]) => /^\d/.test(version)),
  );
  const missing = wanted.filter(
    ([name]) => !Object.keys(packages).some((path) => path.endsWith(`node_modules/${name}`)),
  );
  expect(wanted.length).toBeGreaterThan(20);
  // npm leaves out what the registry that it asked does not have; choose versions that are there for every platform.
  expect(missing).toEqual([]);
});
