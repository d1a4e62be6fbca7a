import { createHash, randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError } from '../../contracts/errors.ts';
import { sha256Hex } from '../../lib/hash.ts';
import type { ArtifactStore, StoredArtifact } from '../tool.ts';
import { expiryOf, type RetentionPolicy } from './retention.ts';

export interface LocalArtifactOptions {
  readonly folder: string;
  readonly retention?: RetentionPolicy;
  /** Bytes of one artifact; more is refused while it is written. */
  readonly maxBytes?: number;
  readonly now?: () => number;
}

const SCHEME = 'runledger-artifact:sha256/';
const URI = /^runledger-artifact:sha256\/([0-9a-f]{64})$/;
const DEFAULT_MAX_BYTES = 2 ** 31 - 1;
const UNFINISHED_AGE_MS = 24 * 3600 * 1000;

/**
 * Artifacts in a folder, named by their SHA-256: the same bytes have one file, and a file cannot change without its name saying
 * so. A file is complete under a temporary name, and on disk, before it gets its own.
 */
export class LocalArtifactStore implements ArtifactStore {
  readonly name = 'local';
  readonly #options: LocalArtifactOptions;
  #ready: Promise<void> | undefined;

  constructor(options: LocalArtifactOptions) {
    this.#options = options;
  }

  async put(bytes: Uint8Array | AsyncIterable<Uint8Array>, kind: string): Promise<StoredArtifact> {
    const { retention, now = Date.now } = this.#options;
    const expiresAt = expiryOf(kind, retention, now());
    const { sha256, sizeBytes } =
      bytes instanceof Uint8Array ? await this.#putBytes(bytes) : await this.#putStream(bytes);
    return { uri: `${SCHEME}${sha256}`, sha256, sizeBytes, ...(expiresAt === undefined ? {} : { expiresAt }) };
  }

  async get(uri: string): Promise<Uint8Array> {
    const sha256 = URI.exec(uri)?.[1];
    // The name of the file is made of hex digits only, so no reference can lead out of the folder.
    if (sha256 === undefined)
      throw new AppError('ARTIFACT_NOT_FOUND', `'${uri.slice(0, 200)}' is no reference of this store`);
    const bytes = await readWhole(this.#path(sha256), uri);
    if (sha256Hex(bytes) !== sha256)
      throw new AppError('ARTIFACT_CORRUPT', `the bytes of ${uri} have changed`, { uri });
    return bytes;
  }

  async #putBytes(bytes: Uint8Array): Promise<{ sha256: string; sizeBytes: number }> {
    const sha256 = sha256Hex(bytes);
    const isThere = await this.get(`${SCHEME}${sha256}`).then(
      () => true,
      () => false,
    );
    if (!isThere) return await this.#putStream(oneChunk(bytes));
    // Its writer may have named it a moment ago, and not have made the name durable yet.
    await syncFolder(dirname(this.#path(sha256)));
    return { sha256, sizeBytes: bytes.length };
  }

  async #putStream(chunks: AsyncIterable<Uint8Array>): Promise<{ sha256: string; sizeBytes: number }> {
    this.#ready ??= this.#prepare();
    await this.#ready;
    const temporary = join(this.#options.folder, 'tmp', randomUUID());
    try {
      const written = await this.#write(temporary, chunks);
      const folder = join(this.#options.folder, 'sha256', written.sha256.slice(0, 2));
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await rename(temporary, this.#path(written.sha256));
      await syncFolder(folder);
      return written;
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  async #write(path: string, chunks: AsyncIterable<Uint8Array>): Promise<{ sha256: string; sizeBytes: number }> {
    const { maxBytes = DEFAULT_MAX_BYTES } = this.#options;
    const hash = createHash('sha256');
    let sizeBytes = 0;
    const file = await open(path, 'wx', 0o600);
    try {
      for await (const chunk of chunks) {
        sizeBytes += chunk.length;
        if (sizeBytes > maxBytes)
          throw new AppError('RESPONSE_TOO_LARGE', `the artifact is larger than ${maxBytes} bytes`);
        hash.update(chunk);
        await writeAll(file, chunk);
      }
      await file.sync();
    } finally {
      await file.close();
    }
    return { sha256: hash.digest('hex'), sizeBytes };
  }

  #path(sha256: string): string {
    return join(this.#options.folder, 'sha256', sha256.slice(0, 2), sha256);
  }

  /** Makes the folders, and removes what writers that were killed left behind. */
  async #prepare(): Promise<void> {
    const { folder, now = Date.now } = this.#options;
    const temporary = join(folder, 'tmp');
    await mkdir(temporary, { recursive: true, mode: 0o700 });
    for (const name of await readdir(temporary)) {
      const path = join(temporary, name);
      const found = await stat(path).catch(() => undefined);
      if (found && now() - found.mtimeMs > UNFINISHED_AGE_MS) await rm(path, { force: true });
    }
  }
}

async function* oneChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
}

async function readWhole(path: string, uri: string): Promise<Uint8Array> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new AppError('ARTIFACT_NOT_FOUND', `there is no ${uri}`, { uri });
    if (code === 'ELOOP') throw new AppError('ARTIFACT_CORRUPT', `${uri} is a link`, { uri });
    throw error;
  }
  try {
    return await file.readFile();
  } finally {
    await file.close();
  }
}

/** The name is durable only when its folder is. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
