import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  type Node,
  type Pair,
  Parser,
  type Scalar,
  type YAMLError,
} from 'yaml';
import { LIMITS } from './limits.ts';
import type { Located, LocatedEntry, LocatedMap, LocatedScalar } from './located.ts';
import type { ProblemList } from './problems.ts';
import type { SourceFile } from './source-file.ts';
import { findUnclosed } from './unclosed.ts';
import { explainUnclosed, explainYamlError, unquotedTemplate } from './yaml-messages.ts';
import { surprise } from './yaml-surprises.ts';

/** Reads one YAML document into located values; `undefined` if the file has to be corrected first. */
export function readYaml(source: SourceFile, problems: ProblemList): Located | undefined {
  const { text } = source;
  if (text.length > LIMITS.sourceLength) {
    problems.add(
      'TOO_LARGE',
      0,
      '',
      `the file has ${text.length} characters; at most ${LIMITS.sourceLength} are taken`,
    );
    return undefined;
  }
  const nul = text.indexOf('\0');
  if (nul !== -1) {
    problems.add('YAML_UNSUPPORTED', nul, '', 'the file holds a NUL character; remove it');
    return undefined;
  }
  const tokens = tokenise(source, problems);
  if (!tokens) return undefined;
  const document = compose(tokens, text.length);
  if (!document) {
    problems.add('YAML_SYNTAX', 0, '', 'the file is empty; a playbook begins with `apiVersion: runledger/v1`');
    return undefined;
  }
  if (document.errors.length > 0) {
    reportErrors(document.errors, source, problems);
    return undefined;
  }
  const directive = document.directives?.yaml;
  if (directive?.explicit && directive.version !== '1.2') {
    const message = `%YAML ${directive.version} reads dates, yes and no in its own way; remove the line`;
    problems.add('YAML_UNSUPPORTED', Math.max(0, text.indexOf('%YAML')), '', message);
    return undefined;
  }
  if (!document.contents) {
    problems.add('YAML_SYNTAX', 0, '', 'the file is empty; a playbook begins with `apiVersion: runledger/v1`');
    return undefined;
  }
  const reader = new Reader(source, problems);
  try {
    return reader.read(document.contents as Node, '').node;
  } catch (thrown) {
    if (thrown instanceof TooMuch) return undefined;
    throw thrown;
  }
}

/**
 * The tokens of the file, if there are not too many of them and not too deep. The parser's stack is watched while it
 * grows: the composer that comes after it recurses, and has taken the process down with one megabyte of `[`.
 */
function tokenise(source: SourceFile, problems: ProblemList): CST.Token[] | undefined {
  const parser = new Parser();
  const tokens: CST.Token[] = [];
  let lexemes = 0;
  let documents = 0;
  const keep = (token: CST.Token): boolean => {
    tokens.push(token);
    if (token.type !== 'document' || ++documents < 2) return true;
    const message = 'the file holds several YAML documents; put each playbook into a file of its own and remove `---`';
    problems.add('YAML_UNSUPPORTED', token.offset, '', message);
    return false;
  };
  for (const lexeme of new Lexer().lex(source.text)) {
    for (const token of parser.next(lexeme)) if (!keep(token)) return undefined;
    // Each level of nesting is up to two entries of the parser's stack.
    if (parser.stack.length > 2 * LIMITS.depth) {
      problems.add('TOO_LARGE', parser.offset, '', `values are nested more than ${LIMITS.depth} deep; flatten them`);
      return undefined;
    }
    if (++lexemes > LIMITS.tokens) {
      problems.add('TOO_LARGE', parser.offset, '', `the file has more than ${LIMITS.tokens} YAML tokens; split it`);
      return undefined;
    }
  }
  for (const token of parser.end()) if (!keep(token)) return undefined;
  return tokens;
}

function compose(tokens: CST.Token[], length: number): Document | undefined {
  const stackTraceLimit = Error.stackTraceLimit;
  // The library makes an Error for each mistake; a hostile file has 100,000 of them, and their stack traces cost seconds.
  Error.stackTraceLimit = 0;
  try {
    // Unique keys are checked by `Reader`: the library compares every key with every other.
    const composer = new Composer({
      uniqueKeys: false,
      merge: false,
      prettyErrors: false,
      logLevel: 'silent',
      version: '1.2',
    });
    for (const document of composer.compose(tokens, true, length)) return document;
    return undefined;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** One mistake makes the parser stumble again and again; what follows the first few says nothing. */
const MOST_ERRORS = 5;

function reportErrors(all: readonly YAMLError[], source: SourceFile, problems: ProblemList): void {
  const errors = all.slice(0, MOST_ERRORS);
  const unclosed = findUnclosed(source.text);
  const isTemplate = errors.some((error) => unquotedTemplate(source, error.pos[0]) !== undefined);
  const isTold = unclosed !== undefined && !isTemplate;
  // Everything behind an opening is taken for a part of it.
  for (const error of errors) if (!isTold || error.pos[0] < unclosed.offset) reportSyntax(error, source, problems);
  if (isTold) problems.add('YAML_SYNTAX', unclosed.offset, '', explainUnclosed(unclosed, source));
}

function reportSyntax(error: YAMLError, source: SourceFile, problems: ProblemList): void {
  const offset = error.pos[0];
  const template = unquotedTemplate(source, offset);
  if (template) problems.add('YAML_SYNTAX', template.offset, '', template.message);
  else problems.add('YAML_SYNTAX', offset, '', explainYamlError(error, source));
}

class TooMuch extends Error {}

interface Measured {
  readonly node: Located;
  /** Values in it, with aliases written out. */
  readonly size: number;
  readonly depth: number;
}

const CORE_TAGS: ReadonlySet<string> = new Set(
  ['str', 'int', 'float', 'bool', 'null', 'map', 'seq', 'merge'].map((name) => `tag:yaml.org,2002:${name}`),
);
const STYLES: Readonly<Record<string, LocatedScalar['style']>> = {
  QUOTE_SINGLE: 'single',
  QUOTE_DOUBLE: 'double',
  BLOCK_LITERAL: 'literal',
  BLOCK_FOLDED: 'folded',
};
const LONE_SURROGATE = /\p{Surrogate}/u;

class Reader {
  readonly #source: SourceFile;
  readonly #problems: ProblemList;
  readonly #anchors = new Map<string, Measured>();
  readonly #open = new Set<string>();
  #written = 0;

  constructor(source: SourceFile, problems: ProblemList) {
    this.#source = source;
    this.#problems = problems;
  }

  read(node: Node | null | undefined, path: string, at = 0): Measured {
    if (isAlias(node)) return this.#alias(node.source, node.range?.[0] ?? at, path);
    const anchor = node && 'anchor' in node ? node.anchor : undefined;
    if (anchor !== undefined) this.#open.add(anchor);
    const measured = this.#readOwn(node, path, at);
    if (anchor !== undefined) {
      this.#open.delete(anchor);
      this.#anchors.set(anchor, measured);
    }
    return measured;
  }

  #readOwn(node: Node | null | undefined, path: string, at: number): Measured {
    if (!node)
      return {
        node: { kind: 'scalar', offset: at, end: at, value: null, style: 'plain', written: '' },
        size: 1,
        depth: 1,
      };
    const [offset, end] = node.range ?? [at, at];
    if ('tag' in node && node.tag !== undefined && !CORE_TAGS.has(node.tag)) {
      this.#problems.add(
        'YAML_UNSUPPORTED',
        offset,
        path,
        `the tag ${short(node.tag)} is not supported; write the plain value`,
      );
    }
    if (isMap(node)) return this.#map(node.items as Pair<Node | null, Node | null>[], offset, end, path);
    if (isSeq(node)) {
      const items = (node.items as (Node | null)[]).map((item, i) => this.read(item, `${path}[${i}]`, offset));
      return this.#measure({ kind: 'list', offset, end, items: items.map((item) => item.node) }, items, offset, path);
    }
    if (isScalar(node)) return { node: this.#scalar(node, offset, end, path), size: 1, depth: 1 };
    throw new TypeError('a YAML node of unknown type');
  }

  #alias(name: string, offset: number, path: string): Measured {
    const target = this.#anchors.get(name);
    if (target) {
      this.#grow(target.size, offset, path);
      return target;
    }
    const message = this.#open.has(name)
      ? `*${short(name)} stands inside the value that it names; a value cannot hold itself`
      : `there is no anchor &${short(name)} above this place`;
    this.#problems.add('YAML_SYNTAX', offset, path, message);
    return this.#readOwn(null, path, offset);
  }

  #grow(size: number, offset: number, path: string): void {
    this.#written += size;
    if (this.#written <= LIMITS.nodes) return;
    const message = `written out, the aliases give more than ${LIMITS.nodes} values; write the list in the tool that needs it`;
    this.#problems.add('YAML_ALIAS_BOMB', offset, path, message);
    throw new TooMuch();
  }

  #measure(node: Located, parts: readonly Measured[], offset: number, path: string): Measured {
    let size = 1;
    let depth = 1;
    for (const part of parts) {
      size += part.size;
      depth = Math.max(depth, part.depth + 1);
    }
    if (depth > LIMITS.depth) {
      this.#problems.add('TOO_LARGE', offset, path, `values are nested more than ${LIMITS.depth} deep; flatten them`);
      throw new TooMuch();
    }
    return { node, size, depth };
  }

  #map(pairs: readonly Pair<Node | null, Node | null>[], offset: number, end: number, path: string): Measured {
    const entries = new Map<string, LocatedEntry>();
    const merged: LocatedEntry[] = [];
    const parts: Measured[] = [];
    for (const pair of pairs) {
      const key = this.#key(pair.key, path, offset);
      if (key === undefined) {
        parts.push(this.read(pair.value, path, offset));
        continue;
      }
      const keyOffset = pair.key?.range?.[0] ?? offset;
      const below = path === '' ? key : `${path}.${key}`;
      const measured = this.read(pair.value, below, pair.key?.range?.[1] ?? offset);
      parts.push(measured);
      if (key === '<<' && isScalar(pair.key) && pair.key.type === 'PLAIN') {
        merged.push(...this.#mergeSources(measured.node, keyOffset, path));
      } else if (entries.has(key)) {
        const first = this.#source.position(entries.get(key)!.keyOffset);
        const message = `'${short(key)}' stands here and in line ${first.line}; keep one of them`;
        this.#problems.add('YAML_DUPLICATE_KEY', keyOffset, below, message);
      } else {
        entries.set(key, { key, keyOffset, value: measured.node });
      }
    }
    // What stands in the mapping itself wins over what is merged into it, and the first merged value over later ones.
    for (const entry of merged) if (!entries.has(entry.key)) entries.set(entry.key, entry);
    return this.#measure({ kind: 'map', offset, end, entries }, parts, offset, path);
  }

  #mergeSources(node: Located, offset: number, path: string): LocatedEntry[] {
    const sources = node.kind === 'list' ? node.items : [node];
    if (sources.every((source): source is LocatedMap => source.kind === 'map')) {
      return sources.flatMap((source) => [...source.entries.values()]);
    }
    this.#problems.add('YAML_SYNTAX', offset, path, '`<<` merges mappings; write `<<: *anchor` of a mapping');
    return [];
  }

  #key(node: Node | null, path: string, at: number): string | undefined {
    const offset = node?.range?.[0] ?? at;
    if (!isScalar(node)) {
      const template = unquotedTemplate(this.#source, offset);
      if (template) this.#problems.add('YAML_SYNTAX', template.offset, path, template.message);
      else this.#problems.add('YAML_KEY', offset, path, 'a key must be a text, not a list, a mapping or an alias');
      return undefined;
    }
    const scalar = this.#scalar(node, offset, node.range?.[1] ?? offset, path);
    if (scalar.value === '__proto__') {
      this.#problems.add('RESERVED_NAME', offset, path, '`__proto__` cannot be used as a key');
      return undefined;
    }
    if (typeof scalar.value === 'string') return scalar.value;
    const written = scalar.value === null ? '' : scalar.written;
    this.#problems.add('YAML_KEY', offset, path, `a key must be a text; write '${short(written)}' in quotes`);
    return undefined;
  }

  #scalar(node: Scalar, offset: number, end: number, path: string): LocatedScalar {
    const style = STYLES[node.type ?? ''] ?? 'plain';
    const written = style === 'plain' ? (node.source ?? '') : '';
    const value = typeof node.value === 'bigint' ? Number(node.value) : node.value;
    if (style === 'plain' && node.tag === undefined) {
      const found = surprise(written, value);
      if (found) this.#problems.add('YAML_AMBIGUOUS', offset, path, found);
    }
    if (typeof value === 'string' && (value.includes('\0') || LONE_SURROGATE.test(value))) {
      this.#problems.add(
        'YAML_UNSUPPORTED',
        offset,
        path,
        'the text holds a NUL or half a character, which a plan cannot store',
      );
    }
    if (value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
      return { kind: 'scalar', offset, end, value, style, written };
    }
    // Only a tag can make anything else of a scalar, and it has been refused.
    return { kind: 'scalar', offset, end, value: null, style, written };
  }
}

/** Names come from the file: short enough for a message. */
function short(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
