import { chmodSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { COLUMNS, SHOWN } from '../../scripts/record-terminal.ts';
import { recordSession, screenOf, textOf, toSvg } from '../../scripts/terminal-picture.ts';
import { ROOT } from '../e2e/cli.fixture.ts';
import { shellWithCli } from '../e2e/shell.fixture.ts';
import { createTestDatabase } from '../setup/database.ts';
import { plain } from './doc-blocks.fixture.ts';

/** What a reader of the picture sees, line by line. */
function wordsOf(svg: string): string {
  const lines = new Map<string, string>();
  for (const [, y, text] of svg.matchAll(/<text x="[\d.]+" y="(\d+)"[^>]*>([^<]*)<\/text>/g))
    lines.set(y!, `${lines.get(y!) ?? ''} ${text}`);
  return [...lines.values()].join('\n').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}

test('the picture of the README shows what these commands print in a terminal', { timeout: 240_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-picture-'));
  chmodSync(folder, 0o755);
  const database = await createTestDatabase();
  try {
    const { env } = shellWithCli(folder, { DATABASE_URL: database.url, RUNLEDGER_FOLDER: folder });
    const screen = screenOf(recordSession(SHOWN, { cwd: ROOT, columns: COLUMNS, env }));
    const committed = readFileSync(join(ROOT, 'docs/terminal.svg'), 'utf8');
    const withoutGaps = textOf(screen).replace(/\n\n+/g, '\n');
    expect(plain(wordsOf(committed))).toBe(plain(withoutGaps));
    expect(wordsOf(toSvg(screen, COLUMNS, ''))).not.toBe('');
  } finally {
    await database.drop();
    await rm(folder, { recursive: true, force: true });
  }
});

test('a screen is what is left after cursor moves, erasing and colours', () => {
  const sent = 'one\r\ntwo\r\n\u001b[2A\r\u001b[J\u001b[32mdone\u001b[0m ok\r\nlast\u001b[K\r\n';
  const screen = screenOf(sent);
  expect(textOf(screen)).toBe('done ok\nlast');
  expect(screen[0]).toEqual([
    { text: 'done', style: '32' },
    { text: ' ok', style: '' },
  ]);
  const svg = toSvg(screen, 20, 'a <title>');
  expect(svg).toContain('fill="#7ee787">done</text>');
  expect(svg).toContain('<title>a &lt;title&gt;</title>');
});
