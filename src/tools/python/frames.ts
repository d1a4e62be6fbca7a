import type { Socket } from 'node:net';

const HEADER_BYTES = 4;

/** A message as four bytes of length and JSON. */
export function encodeFrame(message: unknown): Buffer {
  const body = Buffer.from(JSON.stringify(message), 'utf8');
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32BE(body.length);
  return Buffer.concat([header, body]);
}

/**
 * Calls back with the body of every frame that arrives, and with `tooLarge` instead of collecting one that is longer than
 * the limit. Chunks are joined once per frame: joining on arrival is quadratic for large ones.
 */
export function readFrames(
  socket: Socket,
  maxBytes: number,
  on: { readonly frame: (body: Buffer) => void; readonly tooLarge: (bytes: number) => void },
): void {
  let chunks: Buffer[] = [];
  let size = 0;
  let needed: number | undefined;
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    size += chunk.length;
    for (;;) {
      if (needed === undefined) {
        if (size < HEADER_BYTES) return;
        if (chunks.length > 1) chunks = [Buffer.concat(chunks)];
        needed = HEADER_BYTES + chunks[0]!.readUInt32BE(0);
        if (needed > maxBytes + HEADER_BYTES) {
          socket.pause();
          on.tooLarge(needed);
          return;
        }
      }
      if (size < needed) return;
      const whole = chunks.length > 1 ? Buffer.concat(chunks) : chunks[0]!;
      const rest = whole.subarray(needed);
      const body = whole.subarray(HEADER_BYTES, needed);
      chunks = rest.length > 0 ? [rest] : [];
      size = rest.length;
      needed = undefined;
      on.frame(body);
    }
  });
}
