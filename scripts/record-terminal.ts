// Records docs/terminal.svg, the picture of the README: `node --import tsx scripts/record-terminal.ts`, after `npm run build`.
// A test compares what it shows with what the commands print.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { recordSession, screenOf, toSvg } from './terminal-picture.ts';

export const SHOWN = ['runledger run examples/best-effort.yaml', 'runledger verify latest', 'runledger replay latest'];
export const COLUMNS = 84;

const root = join(import.meta.dirname, '..');
if (process.argv[1] === import.meta.filename) {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-picture-'));
  chmodSync(folder, 0o755);
  const { PATH = '', HOME = '' } = process.env;
  const env = {
    PATH: `${join(root, 'node_modules/.bin')}:${PATH}`,
    HOME,
    RUNLEDGER_FOLDER: join(folder, '.runledger'),
  };
  // The first run of a folder makes its database; the picture is of the second.
  recordSession(SHOWN.slice(0, 1), { cwd: root, columns: COLUMNS, env });
  const screen = screenOf(recordSession(SHOWN, { cwd: root, columns: COLUMNS, env }));
  writeFileSync(join(root, 'docs/terminal.svg'), toSvg(screen, COLUMNS, 'A run in a terminal, verified and replayed'));
  rmSync(folder, { recursive: true, force: true });
}
