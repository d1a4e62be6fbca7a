import { AppError } from '../contracts/errors.ts';
import { sha256Hex } from '../lib/hash.ts';
import type { ArtifactStore, CallContext } from '../tools/tool.ts';

export interface MemoryArtifacts extends ArtifactStore {
  readonly stored: Map<string, Buffer>;
}

export function memoryArtifacts(): MemoryArtifacts {
  const stored = new Map<string, Buffer>();
  return {
    name: 'memory',
    stored,
    async put(bytes) {
      const chunks: Uint8Array[] = [];
      if (bytes instanceof Uint8Array) chunks.push(bytes);
      else for await (const chunk of bytes) chunks.push(Uint8Array.from(chunk));
      const whole = Buffer.concat(chunks);
      const sha256 = sha256Hex(whole);
      const uri = `memory:${sha256}`;
      stored.set(uri, whole);
      return { uri, sha256, sizeBytes: whole.length };
    },
    async get(uri) {
      const bytes = stored.get(uri);
      if (!bytes) throw new AppError('ARTIFACT_NOT_FOUND', `there is no ${uri}`);
      return bytes;
    },
  };
}

/** A call context with secrets in memory; every part can be replaced. */
export function callContext(
  options: Partial<CallContext> & { readonly secrets?: Readonly<Record<string, unknown>> } = {},
): CallContext {
  const { secrets = {}, ...rest } = options;
  return {
    place: {
      tenantId: 'acme',
      projectId: 'main',
      environmentId: 'test',
      runId: 'run-1',
      stepId: 'fetch',
      entity: 'fetch/get:1@1',
      attempt: 1,
    },
    signal: new AbortController().signal,
    timeoutMs: 30_000,
    log: () => {},
    artifacts: memoryArtifacts(),
    secret: async (name) => {
      if (!Object.hasOwn(secrets, name)) throw new AppError('SECRET_NOT_FOUND', `there is no secret '${name}'`);
      return secrets[name];
    },
    ...rest,
  };
}
