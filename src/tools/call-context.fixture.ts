export { callContext, type MemoryArtifacts, memoryArtifacts } from '../testing/call-context.ts';
