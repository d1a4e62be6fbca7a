import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, type WorkflowBundleWithSourceMap } from '@temporalio/worker';

let bundle: Promise<WorkflowBundleWithSourceMap> | undefined;

/** The workflow as one script. Making it takes seconds, so that all workers of a process share it. */
export function workflowBundle(): Promise<WorkflowBundleWithSourceMap> {
  // Beside this file, as source or compiled.
  const file = import.meta.url.endsWith('.ts') ? './run-workflow.ts' : './run-workflow.js';
  bundle ??= bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL(file, import.meta.url)),
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} },
  }).catch((error: unknown) => {
    bundle = undefined;
    throw error;
  });
  return bundle;
}
