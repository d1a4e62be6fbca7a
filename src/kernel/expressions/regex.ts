import { RE2JS, RE2JSException } from 're2js';
import type { Evaluation } from './evaluation.ts';
import { limitError, typeError } from './failure.ts';

const MAX_PATTERN_LENGTH = 1_000;
const CACHE_SIZE = 200;

export interface Regex {
  readonly compiled: RE2JS;
  /** Steps that one character of searched text costs. */
  readonly costPerCharacter: number;
  /** Whether finding a match may need to read far beyond it. */
  readonly mayReadAhead: boolean;
}

/** Compiled patterns. Only speed depends on it: the same pattern gives the same answers. */
const cache = new Map<string, Regex>();

export interface RegexMatch {
  readonly start: number;
  readonly end: number;
  /** The whole match, then the groups; null for a group that took no part. */
  readonly groups: readonly (string | null)[];
  group(name: string): string | null;
}

export function compileRegex(pattern: string, ignoreCase = false, multiline = false): Regex {
  if (pattern.length > MAX_PATTERN_LENGTH) throw limitError(`a pattern may have ${MAX_PATTERN_LENGTH} characters`);
  const flags = (ignoreCase ? RE2JS.CASE_INSENSITIVE : 0) | (multiline ? RE2JS.MULTILINE : 0);
  const key = `${flags}:${pattern}`;
  const known = cache.get(key);
  if (known !== undefined) return known;
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(pattern, flags);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    const hint = /\(\?[=!<]|\\[1-9]/.test(pattern) ? '; lookahead and back references are not supported' : '';
    throw typeError(`this pattern cannot be read${hint}`);
  }
  // Measured: 6 to 20 ns per character and instruction, less for large programs.
  const costPerCharacter = Math.min(compiled.programSize(), 100) / 8;
  const regex = { compiled, costPerCharacter, mayReadAhead: mayReadAhead(pattern) };
  if (cache.size >= CACHE_SIZE) cache.clear();
  cache.set(key, regex);
  return regex;
}

const PATTERN_TOKEN = /\\[pP]\{[^}]*\}|\\[\s\S]|\[\^?(?:\\[\s\S]|[^\]\\])*\]|\(\?[a-zA-Z]*:?|[\s\S]/g;

/**
 * `a.*b|a` finds one letter and still reads the whole text, looking for a `b`. That takes a choice and a repetition with
 * something behind it; a pattern without both stops where its match ends. When in doubt the answer is yes.
 */
function mayReadAhead(pattern: string): boolean {
  if (pattern.includes('\\Q')) return true;
  const tokens = (pattern.match(PATTERN_TOKEN) ?? []).filter((token) => token !== ')');
  const isOpenEnded = (token: string | undefined) => token === '*' || token === '+' || token === '{';
  const hasChoice = tokens.some((token) => token === '|' || token === '?' || token === '*' || token === '{');
  const repeatsGroup = /\)[+{]/.test(pattern);
  const repeatsInside = tokens.slice(0, -1).some(isOpenEnded);
  return (hasChoice || repeatsGroup) && repeatsInside;
}

/**
 * All matches from left to right, none overlapping. One search is linear in the text that remains, but a search for all
 * matches can be quadratic, so that every search that may read ahead is paid for in full before it starts.
 */
export function* findMatches(ev: Evaluation, regex: Regex, text: string): Generator<RegexMatch> {
  const matcher = regex.compiled.matcher(text);
  const pay = (length: number) => ev.charge(2 + Math.ceil(length * regex.costPerCharacter));
  let position = 0;
  pay(text.length);
  while (matcher.find()) {
    const groups: (string | null)[] = [];
    for (let i = 0; i <= matcher.groupCount(); i++) groups.push(matcher.group(i));
    position = matcher.end();
    yield { start: matcher.start(), end: position, groups, group: (name) => namedGroup(matcher, name) };
    pay(regex.mayReadAhead ? text.length - position : 0);
  }
}

function namedGroup(matcher: ReturnType<RE2JS['matcher']>, name: string): string | null {
  try {
    return matcher.group(name);
  } catch {
    throw typeError(`the pattern has no group '${name}'`);
  }
}

/** Python's replacement text: `\1`, `\g<1>` and `\g<name>` are groups. */
export function expandReplacement(replacement: string, match: RegexMatch): string {
  if (!replacement.includes('\\')) return replacement;
  return replacement.replace(
    /\\(?:(\d{1,2})|g<(\w+)>|([\s\S]))/g,
    (whole, index?: string, name?: string, other?: string) => {
      if (other !== undefined) return other === 'n' ? '\n' : other === 't' ? '\t' : other === '\\' ? '\\' : whole;
      const key = index ?? name ?? '';
      if (!/^\d+$/.test(key)) return match.group(key) ?? '';
      const group = match.groups[Number(key)];
      if (group === undefined) throw typeError(`the pattern has no group ${key}`);
      return group ?? '';
    },
  );
}
