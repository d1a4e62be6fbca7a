import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeFrame, readFrames } from './frames.ts';

test('frames arrive whole, however they are cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.jsonValue({ maxDepth: 2 }), { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 1, max: 40 }),
      async (messages, size) => {
        const stream = new PassThrough();
        const bodies: string[] = [];
        readFrames(stream as unknown as Socket, 1e6, {
          frame: (body) => bodies.push(body.toString()),
          tooLarge: () => bodies.push('too large'),
        });
        const bytes = Buffer.concat(messages.map((message) => encodeFrame(message)));
        for (let at = 0; at < bytes.length; at += size) stream.write(bytes.subarray(at, at + size));
        stream.end();
        await new Promise((resolve) => stream.once('end', resolve));
        expect(bodies).toEqual(messages.map((message) => JSON.stringify(message)));
      },
    ),
  );
});

test('a frame beyond the limit is not collected', async () => {
  const stream = new PassThrough();
  const seen: unknown[] = [];
  readFrames(stream as unknown as Socket, 100, {
    frame: (body) => seen.push(body),
    tooLarge: (bytes) => seen.push(bytes),
  });
  stream.write(encodeFrame('x'.repeat(200)));
  await new Promise((resolve) => setImmediate(resolve));
  expect(seen).toEqual([206]);
});
