import type { ErrorCode, YAMLError } from 'yaml';
import type { SourceFile } from './source-file.ts';
import type { Unclosed } from './unclosed.ts';

/** What to do about the library's errors, where its own words do not say it. */
const CURES: Partial<Record<ErrorCode, string>> = {
  TAB_AS_INDENT: 'a tab is used as indentation; use spaces',
  BLOCK_AS_IMPLICIT_KEY: 'a value with `: ` in it; put the whole value in quotes',
  MULTILINE_IMPLICIT_KEY: 'a key must stand on one line; is a `:` or a closing quote missing?',
  BAD_INDENT: 'the indentation does not fit the lines above; align it with its neighbours',
  MISSING_CHAR: 'something is not closed: a quote, a bracket, or the `:` of a key',
  BAD_ALIAS: 'a value that begins with `*` is an alias; put it in quotes if it is a text',
  BAD_SCALAR_START: 'a value cannot begin with this character; put it in quotes',
  UNEXPECTED_TOKEN: 'this does not belong here; put texts with special characters in quotes',
  RESOURCE_EXHAUSTION: 'the values are nested too deeply; flatten them',
};

export function explainYamlError(error: YAMLError, source: SourceFile): string {
  const offset = error.pos[0];
  const { column, line } = source.position(offset);
  if (source.line(line).slice(0, column).trimStart() === '' && source.line(line).slice(0, column).includes('\t')) {
    return CURES.TAB_AS_INDENT!;
  }
  const said = error.message.replace(/\s+/g, ' ').slice(0, 160);
  const cure = CURES[error.code];
  return cure === undefined ? said : `${cure} (${said})`;
}

export function explainUnclosed({ opener, closer, noticed, instead }: Unclosed, source: SourceFile): string {
  if (opener === closer) return `the quote ${opener} is opened here and never closed`;
  const { line, column } = source.position(noticed);
  const isEnd = noticed >= source.text.trimEnd().length;
  const place = isEnd ? 'before the end of the file' : `before line ${line}`;
  const before = instead === undefined ? place : `before the ${instead} at ${line}:${column}`;
  return `${opener} is opened here and not closed: a ${closer} is missing ${before}`;
}

const BARE_TEMPLATE = /^(?:\s*(?:- )*(?:[^\s'"{#][^'"{#]*:)?\s*)(\{[{%])/;

/** `url: {{ x }}` is the mistake that everybody makes once: to YAML it is a mapping inside a mapping. */
export function unquotedTemplate(source: SourceFile, offset: number): { offset: number; message: string } | undefined {
  const { line } = source.position(offset);
  // The library may notice the mistake on the line after it.
  for (const candidate of [line, line - 1]) {
    if (candidate < 1) continue;
    const text = source.line(candidate).slice(0, 2000);
    const match = BARE_TEMPLATE.exec(text);
    if (!match) continue;
    const column = match[0].length - match[1]!.length;
    const message = `a value that begins with ${match[1]} must stand in quotes: "${match[1]} ... ${match[1] === '{{' ? '}}' : '%}'}"`;
    return { offset: source.lineStart(candidate) + column, message };
  }
  return undefined;
}
