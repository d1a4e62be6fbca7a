import {
  type CompileOptions,
  type CompileResult,
  compileSync,
  type PlaybookSource,
  type ResolveSync,
} from './compile.ts';

/** A playbook around the given steps. */
export function playbook(workflow: string, more = ''): string {
  return `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, version: "1"}\n${more}workflow:\n${workflow}`;
}

/** A playbook whose only step runs the given tool, written in flow style. */
export function withTool(tool: string, more = ''): string {
  return playbook(`- {step: start, tool: ${tool}}\n`, more);
}

type Options = Omit<CompileOptions, 'resolve'> & { resolve?: ResolveSync };

export function compileText(text: string, options: Options = {}): CompileResult {
  return compileSync({ text, file: 'test.yaml' }, options);
}

/** The compiled playbook; fails with its problems if it has any. */
export function compiled(text: string, options: Options = {}) {
  const result = compileText(text, options);
  if (!result.ok) throw new Error(found(result).join('\n'));
  return result;
}

/** `CODE line:column` of each problem or warning. */
export function found(result: CompileResult): string[] {
  const problems = result.ok ? result.warnings : result.problems;
  return problems.map(({ code, line, column }) => `${code} ${line}:${column}`);
}

export function problemsOf(text: string, options: Options = {}): string[] {
  return found(compileText(text, options));
}

/** A folder of playbooks, as a resolver. */
export function folder(files: Record<string, string>): ResolveSync {
  return (path): PlaybookSource | undefined => {
    const text = Object.hasOwn(files, path) ? files[path] : undefined;
    return text === undefined ? undefined : { text, file: path };
  };
}

/** `§CODE§` stands where a problem must be reported; the marks are taken out of the text. */
export function withoutMarks(marked: string): { text: string; expected: string[] } {
  const expected: string[] = [];
  let text = '';
  let from = 0;
  for (const match of marked.matchAll(/§(\w+)§/g)) {
    text += marked.slice(from, match.index);
    from = match.index + match[0].length;
    const lines = text.split('\n');
    expected.push(`${match[1]} ${lines.length}:${lines.at(-1)!.length + 1}`);
  }
  return { text: text + marked.slice(from), expected };
}
