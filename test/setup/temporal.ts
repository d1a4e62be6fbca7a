import type { TestProject } from 'vitest/node';
import { startTemporal } from '../servers/temporal.ts';

declare module 'vitest' {
  interface ProvidedContext {
    temporal: { readonly address: string; readonly namespace: string };
  }
}

/** One Temporal server for all files of the engine tests. No server, no tests: what is thrown here fails the run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { address, namespace, stop } = await startTemporal();
  project.provide('temporal', { address, namespace });
  return stop;
}
