/** A fenced block of a document, with what the comment before it says. */
export interface DocBlock {
  readonly language: string;
  readonly text: string;
  readonly line: number;
  /** `<!-- file: NAME -->`: the text is put into this file. */
  readonly file?: string;
  /** `<!-- not run: REASON -->` */
  readonly notRun?: string;
  /** `<!-- exit: N -->`: what the block ends with; 0 unless it says so. */
  readonly exit: number;
}

/** A comment that only the test sees: `<!-- test: COMMAND -->`, such as waiting for what a reader would watch. */
export interface HiddenCommand {
  readonly hidden: string;
  readonly line: number;
}

const DIRECTIVE = /^<!-- (file|not run|exit|test): (.*?) -->$/;

export function docBlocks(text: string): (DocBlock | HiddenCommand)[] {
  const found: (DocBlock | HiddenCommand)[] = [];
  const lines = text.split('\n');
  let said: Record<string, string> = {};
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!;
    const [, word, value] = DIRECTIVE.exec(line) ?? [];
    if (word === 'test') found.push({ hidden: value!, line: i + 1 });
    else if (word !== undefined) said[word] = value!;
    const fence = /^```([\w-]*)$/.exec(line);
    if (!fence) continue;
    const end = lines.indexOf('```', i + 1);
    if (end < 0) throw new Error(`the block at line ${i + 1} is never closed`);
    found.push({
      language: fence[1]!,
      text: `${lines.slice(i + 1, end).join('\n')}\n`,
      line: i + 1,
      exit: Number(said['exit'] ?? 0),
      ...(said['file'] === undefined ? {} : { file: said['file'] }),
      ...(said['not run'] === undefined ? {} : { notRun: said['not run'] }),
    });
    said = {};
    i = end;
  }
  return found;
}

/** The commands of a `console` block, each with what it is said to print. */
export function consoleSteps(text: string): { readonly command: string; readonly prints: string }[] {
  const steps: { command: string; prints: string }[] = [];
  for (const line of text.split('\n')) {
    if (line.startsWith('$ ')) steps.push({ command: line.slice(2), prints: '' });
    else if (steps.length > 0) steps.at(-1)!.prints += `${line}\n`;
    else throw new Error(`a console block begins with a command, not with '${line}'`);
  }
  return steps;
}

/** What differs from run to run, made the same: ids, hashes, times, and the spaces that fill up columns. */
export function plain(text: string): string {
  return text
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
    .replace(/\b[0-9a-f]{64}\b/g, 'HASH')
    .replace(/\b[0-9a-f]{12}\b/g, 'HASH')
    .replace(/\b(?=[0-9a-f]*\d)[0-9a-f]{8}\b/g, 'ID')
    .replace(/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?/g, 'DATE')
    .replace(/\b\d\d:\d\d:\d\d(\.\d+)?/g, 'CLOCK')
    .replace(/\b\d+(\.\d+)? (ms|s)\b/g, 'TIME')
    .replace(/[ \t]+/g, ' ')
    .split('\n')
    .map((line) => line.trim())
    .join('\n')
    .trim();
}

/** Matches the plain text that was said; `...` stands for any text of a line, a line of it for any lines or none. */
export function printsAs(expected: string): RegExp {
  const lines = plain(expected)
    .split('\n')
    .map((line) => (line === '...' ? '(?:.*\n)*' : `${escaped(line).replaceAll('\\.\\.\\.', '.*')}\n`));
  return new RegExp(`^${lines.join('')}$`);
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
