import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';

// What a default install looks like: the packages of the SDK cannot be found.
const HOOK = `
export function resolve(specifier, context, next) {
  if (!specifier.startsWith('@temporalio/')) return next(specifier, context);
  throw Object.assign(new Error('Cannot find package ' + specifier), { code: 'ERR_MODULE_NOT_FOUND' });
}
`;

test('without the SDK the error prints the install line, and the engine on leases does not miss it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-no-sdk-'));
  try {
    const hook = join(folder, 'hook.mjs');
    writeFileSync(hook, HOOK);
    const script = join(folder, 'main.mts');
    const here = (file: string): string => pathToFileURL(join(import.meta.dirname, file)).href;
    writeFileSync(
      script,
      `import { register } from 'node:module';
       register(${JSON.stringify(pathToFileURL(hook).href)});
       await import(${JSON.stringify(here('create-native-runtime.ts'))});
       const { createTemporalRuntime } = await import(${JSON.stringify(here('create-temporal-runtime.ts'))});
       const error = await createTemporalRuntime({ store: {}, tools: [], artifacts: {} }).catch((thrown) => thrown);
       console.log(JSON.stringify({ code: error.code, message: error.message }));`,
    );
    const printed = execFileSync(process.execPath, ['--import', 'tsx', script], { encoding: 'utf8' });
    const { code, message } = JSON.parse(printed) as { code: string; message: string };
    expect(code).toBe('DEPENDENCY_MISSING');
    expect(message).toContain(
      'npm install @temporalio/client @temporalio/worker @temporalio/workflow @temporalio/activity @temporalio/common',
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
