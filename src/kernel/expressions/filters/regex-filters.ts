import { booleanArgument, type CallableTable, integerArgument } from '../callable.ts';
import type { Evaluation } from '../evaluation.ts';
import { compileRegex, expandReplacement, findMatches, type RegexMatch } from '../regex.ts';
import { toText } from '../render-text.ts';

export const REGEX_FILTERS: CallableTable = {
  regex_replace: {
    params: ['pattern', 'replacement', 'ignorecase', 'multiline', 'count'],
    required: 1,
    summary: 'Text with every match of a pattern replaced; `\\1` in the replacement is a group.',
    apply: (ev, value, [pattern, replacement, ignoreCase, multiline, count]) => {
      const text = toText(ev, value);
      const fresh = toText(ev, replacement);
      const regex = regexArgument(ev, pattern, ignoreCase, multiline);
      const most = integerArgument(ev, count, 'count', 0);
      let out = '';
      let position = 0;
      let done = 0;
      for (const match of findMatches(ev, regex, text)) {
        const piece = text.slice(position, match.start) + expandReplacement(fresh, match);
        ev.checkLength(out.length + piece.length);
        ev.chargeText(piece.length);
        out += piece;
        position = match.end;
        if (++done === most) break;
      }
      return ev.text(out + text.slice(position));
    },
  },
  regex_search: {
    params: ['pattern', 'ignorecase', 'multiline'],
    required: 1,
    summary: 'The first match of a pattern: its text, a list if it has groups, none if there is no match.',
    apply: (ev, value, [pattern, ignoreCase, multiline]) => {
      for (const match of findMatches(ev, regexArgument(ev, pattern, ignoreCase, multiline), toText(ev, value))) {
        return matched(ev, match);
      }
      return null;
    },
  },
  regex_match: {
    params: ['pattern', 'ignorecase', 'multiline'],
    required: 1,
    summary: 'As regex_search, but the match must begin at the start of the text.',
    apply: (ev, value, [pattern, ignoreCase, multiline]) => {
      const match = matchAtStart(ev, toText(ev, value), pattern, ignoreCase, multiline);
      return match === undefined ? null : matched(ev, match);
    },
  },
  regex_findall: {
    params: ['pattern', 'multiline', 'ignorecase'],
    required: 1,
    summary: 'List of all matches: their texts, or lists if the pattern has more than one group.',
    apply: (ev, value, [pattern, multiline, ignoreCase]) => {
      const out: unknown[] = [];
      for (const match of findMatches(ev, regexArgument(ev, pattern, ignoreCase, multiline), toText(ev, value))) {
        const [whole, ...groups] = match.groups;
        const texts = groups.map((group) => group ?? '');
        out.push(texts.length === 0 ? whole : texts.length === 1 ? texts[0] : texts);
      }
      return ev.list(out);
    },
  },
  regex_escape: {
    params: [],
    summary: 'Text with the special characters of patterns escaped.',
    apply: (ev, value) => ev.text(toText(ev, value).replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')),
  },
};

function regexArgument(ev: Evaluation, pattern: unknown, ignoreCase: unknown, multiline: unknown) {
  return compileRegex(
    toText(ev, pattern),
    booleanArgument(ev, ignoreCase, false),
    booleanArgument(ev, multiline, false),
  );
}

export function matchAtStart(
  ev: Evaluation,
  text: string,
  pattern: unknown,
  ignoreCase: unknown,
  multiline: unknown,
): RegexMatch | undefined {
  // `\A` binds the whole pattern to the start, so that the search does not walk through the text.
  const regex = regexArgument(ev, `\\A(?:${toText(ev, pattern)})`, ignoreCase, multiline);
  for (const match of findMatches(ev, regex, text)) return match;
  return undefined;
}

export function isFound(
  ev: Evaluation,
  text: string,
  pattern: unknown,
  ignoreCase: unknown,
  multiline: unknown,
): boolean {
  for (const _ of findMatches(ev, regexArgument(ev, pattern, ignoreCase, multiline), text)) return true;
  return false;
}

function matched(ev: Evaluation, match: RegexMatch): unknown {
  const [whole, ...groups] = match.groups;
  return groups.length === 0 ? whole : ev.list(groups);
}
