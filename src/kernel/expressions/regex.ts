import { RE2JS, RE2JSException } from 're2js';
import type { Evaluation } from './evaluation.ts';
import { limitError, typeError } from './failure.ts';

const MAX_PATTERN_LENGTH = 1_000;
const CACHE_SIZE = 200;
/** Compiled patterns. Only speed depends on it: the same pattern gives the same answers. */
const cache = new Map<string, RE2JS>();

export interface RegexMatch {
  readonly start: number;
  readonly end: number;
  /** The whole match, then the groups; null for a group that took no part. */
  readonly groups: readonly (string | null)[];
  group(name: string): string | null;
}

export function compileRegex(pattern: string, ignoreCase = false, multiline = false): RE2JS {
  if (pattern.length > MAX_PATTERN_LENGTH) throw limitError(`a pattern may have ${MAX_PATTERN_LENGTH} characters`);
  const flags = (ignoreCase ? RE2JS.CASE_INSENSITIVE : 0) | (multiline ? RE2JS.MULTILINE : 0);
  const key = `${flags}:${pattern}`;
  const known = cache.get(key);
  if (known !== undefined) return known;
  let regex: RE2JS;
  try {
    regex = RE2JS.compile(pattern, flags);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    const hint = /\(\?[=!<]|\\[1-9]/.test(pattern) ? '; lookahead and back references are not supported' : '';
    throw typeError(`this pattern cannot be read${hint}`);
  }
  if (cache.size >= CACHE_SIZE) cache.clear();
  cache.set(key, regex);
  return regex;
}

/**
 * All matches from left to right, none overlapping. One search is linear in the text that remains, but a search for all
 * matches can be quadratic, so each one is paid for before it starts.
 */
export function* findMatches(ev: Evaluation, regex: RE2JS, text: string): Generator<RegexMatch> {
  const matcher = regex.matcher(text);
  let position = 0;
  for (;;) {
    ev.charge(1 + Math.ceil((text.length - position) / 20));
    if (!matcher.find()) return;
    const groups: (string | null)[] = [];
    for (let i = 0; i <= matcher.groupCount(); i++) groups.push(matcher.group(i));
    position = matcher.end();
    yield { start: matcher.start(), end: position, groups, group: (name) => namedGroup(matcher, name) };
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
