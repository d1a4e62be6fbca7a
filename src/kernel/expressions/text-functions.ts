import type { Evaluation } from './evaluation.ts';
import { typeError } from './failure.ts';
import { splitOn } from './text-search.ts';

/** Python's string functions, shared by filters and methods. */

export function capitalizeText(text: string): string {
  const first = Array.from(text.slice(0, 2))[0] ?? '';
  return first.toUpperCase() + text.slice(first.length).toLowerCase();
}

/** Jinja's filter: words begin after white space, a hyphen or an opening bracket, so that "don't" stays one word. */
export function titleWords(text: string): string {
  return text
    .split(/([-\s({[<]+)/)
    .map(capitalizeText)
    .join('');
}

/** Python's method: words begin after anything that is not a letter. */
export function titleText(text: string): string {
  return text.replace(/\p{L}+/gu, capitalizeText);
}

export function stripText(text: string, chars: string | undefined, side: 'left' | 'right' | 'both'): string {
  if (chars === undefined) {
    return side === 'left' ? text.trimStart() : side === 'right' ? text.trimEnd() : text.trim();
  }
  const set = new Set(chars);
  let from = 0;
  let to = text.length;
  if (side !== 'right') while (from < to && set.has(text[from]!)) from++;
  if (side !== 'left') while (to > from && set.has(text[to - 1]!)) to--;
  return text.slice(from, to);
}

export function replaceText(ev: Evaluation, text: string, old: string, fresh: string, count: number): string {
  ev.chargeText(text.length * 4);
  const parts = old === '' ? ['', ...text, ''] : splitOn(text, old);
  const times = count < 0 ? parts.length - 1 : Math.min(count, parts.length - 1);
  ev.checkLength(text.length + times * (fresh.length - old.length));
  ev.charge(parts.length);
  if (times === parts.length - 1) return ev.text(parts.join(fresh));
  const head = parts.slice(0, times + 1).join(fresh);
  return ev.text(times === 0 ? text : [head, ...parts.slice(times + 1)].join(old));
}

export function splitText(ev: Evaluation, text: string, separator: string | undefined, limit: number): unknown[] {
  ev.chargeText(text.length);
  if (separator === '') throw typeError('the separator of split is empty');
  if (separator === undefined) {
    const words = text.trimStart();
    if (words === '') return [];
    if (limit < 0) return ev.list(words.trimEnd().split(/\s+/));
    return ev.list(splitWords(words, limit));
  }
  const parts = splitOn(text, separator);
  if (limit < 0 || parts.length <= limit + 1) return ev.list(parts);
  return ev.list([...parts.slice(0, limit), parts.slice(limit).join(separator)]);
}

function splitWords(words: string, limit: number): string[] {
  const out: string[] = [];
  let rest = words;
  while (out.length < limit) {
    const gap = /\s+/.exec(rest);
    if (gap === null) break;
    out.push(rest.slice(0, gap.index));
    rest = rest.slice(gap.index + gap[0].length);
  }
  return rest === '' ? out : [...out, rest];
}

export function splitTextFromRight(
  ev: Evaluation,
  text: string,
  separator: string | undefined,
  limit: number,
): unknown[] {
  if (limit < 0) return splitText(ev, text, separator, -1);
  const parts = splitText(ev, text, separator, -1);
  if (parts.length <= (separator === undefined ? limit : limit + 1)) return parts;
  if (separator !== undefined) {
    const kept = parts.length - limit;
    return [parts.slice(0, kept).join(separator), ...parts.slice(kept)];
  }
  // White space inside the remaining head must stay as it was.
  let head = text.trimEnd();
  const tail = limit === 0 ? [] : parts.slice(-limit);
  for (let i = tail.length - 1; i >= 0; i--) head = head.slice(0, head.length - String(tail[i]).length).trimEnd();
  return [head, ...tail];
}

export function splitLines(ev: Evaluation, text: string, keepEnds: boolean): string[] {
  ev.chargeText(text.length);
  const lines: string[] = [];
  const lineEnd = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/g;
  let start = 0;
  for (let match = lineEnd.exec(text); match !== null; match = lineEnd.exec(text)) {
    lines.push(text.slice(start, keepEnds ? lineEnd.lastIndex : match.index));
    start = lineEnd.lastIndex;
  }
  if (start < text.length) lines.push(text.slice(start));
  ev.charge(lines.length);
  return lines;
}

export function indentText(
  ev: Evaluation,
  text: string,
  prefix: string,
  options: { readonly first: boolean; readonly blank: boolean },
): string {
  const lines = splitLines(ev, `${text}\n`, false);
  ev.checkLength(text.length + lines.length * prefix.length);
  const indented = lines.map((line, i) => {
    if (i === 0) return options.first ? prefix + line : line;
    return line === '' && !options.blank ? line : prefix + line;
  });
  return ev.text(indented.join('\n'));
}
