import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Hex } from '../../lib/hash.ts';
import type { ArtifactStore } from '../../tools/tool.ts';

/** Artifacts in a folder that several processes of a test share. */
export function folderArtifacts(folder: string): ArtifactStore {
  mkdirSync(folder, { recursive: true });
  return {
    name: 'folder',
    async put(bytes) {
      const chunks: Uint8Array[] = [];
      if (bytes instanceof Uint8Array) chunks.push(bytes);
      else for await (const chunk of bytes) chunks.push(chunk);
      const whole = Buffer.concat(chunks);
      const sha256 = sha256Hex(whole);
      writeFileSync(join(folder, sha256), whole);
      return { uri: `folder:${sha256}`, sha256, sizeBytes: whole.length };
    },
    get: async (uri) => readFileSync(join(folder, uri.slice('folder:'.length))),
  };
}
