import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LineSplitter, LogBudget } from './log-lines.ts';

function split(chunks: readonly Buffer[], limits = { maxLineLength: 8192, maxLines: 10_000, maxChars: 1e6 }): string[] {
  const lines: string[] = [];
  const splitter = new LineSplitter('stdout', new LogBudget((_stream, line) => lines.push(line), limits));
  for (const chunk of chunks) splitter.write(chunk);
  splitter.end();
  return lines;
}

test('wherever a text is cut into chunks, its lines are the same', () => {
  const line = fc.string({ unit: 'grapheme', maxLength: 12 }).map((text) => text.replace(/[\r\n]/g, ''));
  fc.assert(
    fc.property(fc.array(line), line, fc.array(fc.nat(200)), (lines, tail, cuts) => {
      const bytes = Buffer.from(lines.map((text) => `${text}\n`).join('') + tail);
      const places = [...new Set([0, ...cuts.filter((cut) => cut < bytes.length), bytes.length])].sort((a, b) => a - b);
      const chunks = places.slice(1).map((end, i) => bytes.subarray(places[i], end));
      expect(split(chunks)).toEqual(tail === '' ? lines : [...lines, tail]);
    }),
  );
});

test('a line without an end is cut and the rest of it dropped', () => {
  const limits = { maxLineLength: 10, maxLines: 100, maxChars: 1e6 };
  const chunks = ['0123456789ab', 'cdef', 'gh\nnext\n', 'x'.repeat(50), '\nlast'].map((text) => Buffer.from(text));
  expect(split(chunks, limits)).toEqual(['0123456789 [cut]', 'next', 'xxxxxxxxxx [cut]', 'last']);
});

test('all streams of a call share one budget, and its end is told once', () => {
  const lines: string[] = [];
  const limits = { maxLineLength: 100, maxLines: 3, maxChars: 1000 };
  const budget = new LogBudget((stream, line) => lines.push(`${stream} ${line}`), limits);
  for (const stream of ['stdout', 'stderr', 'stdout', 'stderr', 'stdout'] as const) budget.line(stream, 'x');
  expect(lines).toEqual([
    'stdout x',
    'stderr x',
    'stdout x',
    'log output beyond 3 lines or 1000 characters is not logged',
  ]);
});
