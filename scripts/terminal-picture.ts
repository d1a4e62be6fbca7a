import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** A piece of a line in one style. */
interface Piece {
  readonly text: string;
  readonly style: string;
}

interface Cell {
  readonly char: string;
  readonly style: string;
}

const COLORS: Readonly<Record<string, string>> = {
  '31': '#ff7b72',
  '32': '#7ee787',
  '33': '#e3b341',
  '34': '#79c0ff',
  '35': '#d2a8ff',
  '36': '#76e3ea',
};

/** Runs the commands in a real pseudo-terminal, one after the other, and gives what it was sent. */
export function recordSession(
  commands: readonly string[],
  options: { readonly cwd: string; readonly columns: number; readonly env: Readonly<Record<string, string>> },
): string {
  const lines = commands.map((command) => `printf '\\033[2m$\\033[0m %s\\n' ${quoted(command)}\n${command}`);
  const recorder = join(import.meta.dirname, 'record_terminal.py');
  const session = lines.join('\necho\n');
  return execFileSync('python3', [recorder, String(options.columns), '60', 'bash', '-c', session], {
    cwd: options.cwd,
    env: { TERM: 'xterm-256color', LANG: 'C.UTF-8', ...options.env },
    encoding: 'utf8',
    timeout: 180_000,
  });
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** The screen after everything was painted: cursor moves, erasing and colours as the command line uses them. */
export function screenOf(recorded: string): Piece[][] {
  const rows: Cell[][] = [[]];
  let [row, column, style] = [0, 0, ''];
  const line = (): Cell[] => {
    while (rows.length <= row) rows.push([]);
    return rows[row]!;
  };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what a terminal is sent.
  for (const [, params, command, char] of recorded.matchAll(/\x1b\[([?\d;]*)([A-Za-z])|([\s\S])/gu)) {
    if (command === 'A') row = Math.max(0, row - Number(params || 1));
    else if (command === 'J') {
      line().length = column;
      rows.length = row + 1;
    } else if (command === 'K') line().length = Math.min(line().length, column);
    else if (command === 'm') style = params === '' || params === '0' ? '' : params!;
    else if (char === '\r') column = 0;
    else if (char === '\n') [row, column] = [row + 1, 0];
    else if (char !== undefined) {
      const cells = line();
      while (cells.length < column) cells.push({ char: ' ', style: '' });
      cells[column] = { char, style };
      column += 1;
    }
  }
  return rows.map(piecesOf);
}

function piecesOf(cells: readonly Cell[]): Piece[] {
  const pieces: { text: string; style: string }[] = [];
  for (const { char, style } of cells) {
    const last = pieces.at(-1);
    if (last?.style === style) last.text += char;
    else pieces.push({ text: char, style });
  }
  return pieces;
}

export const textOf = (screen: readonly (readonly Piece[])[]): string =>
  screen
    .map((pieces) =>
      pieces
        .map(({ text }) => text)
        .join('')
        .trimEnd(),
    )
    .join('\n')
    .trim();

const [WIDTH, HEIGHT, MARGIN, BAR] = [8.4, 19, 16, 34] as const;

/** The screen as a picture that needs no font but the reader's own: every piece is stretched to its columns. */
export function toSvg(screen: readonly (readonly Piece[])[], columns: number, title: string): string {
  const lines = screen.slice();
  while (lines.length > 0 && lines.at(-1)!.every(({ text }) => text.trim() === '')) lines.pop();
  const width = Math.ceil(columns * WIDTH + 2 * MARGIN);
  const height = BAR + lines.length * HEIGHT + MARGIN;
  const texts = lines.flatMap((pieces, row) => {
    let column = 0;
    return pieces.flatMap(({ text, style }) => {
      const at = column;
      column += [...text].length;
      // Wide gaps are left out of the text: not every reader keeps them.
      return [...text.matchAll(/\S+(?: \S+)*/g)].map(({ 0: words, index }) => {
        const size = [...words].length;
        const [x, y] = [MARGIN + (at + [...text.slice(0, index)].length) * WIDTH, BAR + row * HEIGHT + 14];
        const length = `textLength="${fixed(size * WIDTH)}"${size > 1 ? ' lengthAdjust="spacingAndGlyphs"' : ''}`;
        return `<text x="${fixed(x)}" y="${y}" ${length}${paint(style)}>${escaped(words)}</text>`;
      });
    });
  });
  const dots = ['#ff5f57', '#febc2e', '#28c840'].map(
    (color, i) => `<circle cx="${MARGIN + 6 + i * 18}" cy="17" r="5.5" fill="${color}"/>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<title>${escaped(title)}</title>
<rect width="${width}" height="${height}" rx="8" fill="#0d1117" stroke="#30363d"/>
${dots.join('\n')}
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" fill="#e6edf3">
${texts.join('\n')}
</g>
</svg>
`;
}

function paint(style: string): string {
  const codes = style.split(';');
  const color = codes.map((code) => COLORS[code]).find((found) => found !== undefined);
  return `${color ? ` fill="${color}"` : codes.includes('2') ? ' fill="#8b949e"' : ''}${codes.includes('1') ? ' font-weight="bold"' : ''}`;
}

const fixed = (value: number): string => String(Number(value.toFixed(2)));
const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
