/** Keeps the beginning of a stream. A chatty command must neither exhaust the memory nor fill the store. */
export class BoundedOutput {
  readonly #maxBytes: number;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  truncated = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  write(chunk: Buffer): void {
    const room = this.#maxBytes - this.#bytes;
    if (chunk.length > room) this.truncated = true;
    if (room <= 0) return;
    this.#chunks.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
    this.#bytes += Math.min(chunk.length, room);
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
}
