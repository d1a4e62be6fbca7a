const ESCAPE = '\u001b';
const TOKEN = new RegExp(`${ESCAPE}\\[[0-9;?]*[A-Za-z]|[\\s\\S]`, 'gu');

/** What a terminal of that size shows at the end of a text: lines that wrap, and the few movements that the command line uses. */
export function screenOf(text: string, columns: number): string[] {
  const lines: string[][] = [[]];
  let [row, column] = [0, 0];
  const tokens = text.match(TOKEN) ?? [];
  for (const token of tokens) {
    if (token.startsWith(ESCAPE)) {
      const count = Number(/\d+/.exec(token)?.[0] ?? 1);
      if (token.endsWith('A')) row = Math.max(0, row - count);
      else if (token.endsWith('J')) {
        lines.length = row + 1;
        lines[row] = lines[row]!.slice(0, column);
      } else if (!/[mhl]$/.test(token)) throw new Error(`The screen does not know ${JSON.stringify(token)}`);
    } else if (token === '\r') column = 0;
    else if (token === '\n') down();
    else {
      if (column >= columns) {
        column = 0;
        down();
      }
      lines[row]![column] = token;
      column += 1;
    }
  }
  return lines.map((line) =>
    Array.from(line, (sign) => sign ?? ' ')
      .join('')
      .trimEnd(),
  );

  function down(): void {
    row += 1;
    lines[row] ??= [];
  }
}
