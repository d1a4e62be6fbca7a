import { configDefaults, defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts'],
    // These need servers that npm does not bring: `npm run test:engines`.
    exclude: [...configDefaults.exclude, '**/*.engines.test.ts'],
    setupFiles: ['test/setup/properties.ts'],
    globalSetup: ['test/setup/postgres.ts'],
    // Real servers and child processes on a busy two-core machine.
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
