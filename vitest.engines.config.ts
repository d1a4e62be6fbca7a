import { defineConfig } from 'vitest/config';

// What needs servers that npm does not bring; see scripts/test-engines.ts.
export default defineConfig({
  test: {
    include: ['{src,test}/**/*.engines.test.ts'],
    setupFiles: ['test/setup/properties.ts'],
    globalSetup: ['test/setup/postgres.ts', 'test/setup/temporal.ts'],
    // A worker of Temporal's takes 300 MB and seconds to bundle its workflows.
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
