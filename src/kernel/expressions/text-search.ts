/** Up to here the host's search costs little even if it compares every character of the part at every place. */
const SHORT = 64;

/**
 * Places of a part in a text, from left to right and not overlapping. The host's own search takes time in proportion to the
 * product of both lengths on texts such as `aaaa...`, which no budget could foresee; for long parts this one (Knuth, Morris
 * and Pratt) takes the sum.
 */
export function* placesOf(text: string, part: string): Generator<number> {
  if (part.length <= SHORT) {
    for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + Math.max(1, part.length))) yield at;
    return;
  }
  const borders = bordersOf(part);
  let matched = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    while (matched > 0 && code !== part.charCodeAt(matched)) matched = borders[matched - 1]!;
    if (code === part.charCodeAt(matched)) matched++;
    if (matched === part.length) {
      yield i - matched + 1;
      matched = 0;
    }
  }
}

export function placeOf(text: string, part: string): number {
  for (const at of placesOf(text, part)) return at;
  return -1;
}

export function splitOn(text: string, part: string): string[] {
  if (part.length <= SHORT) return text.split(part);
  const parts: string[] = [];
  let start = 0;
  for (const at of placesOf(text, part)) {
    parts.push(text.slice(start, at));
    start = at + part.length;
  }
  parts.push(text.slice(start));
  return parts;
}

/** For each prefix the length of its longest proper prefix that is also its suffix. */
function bordersOf(part: string): Int32Array {
  const borders = new Int32Array(part.length);
  let length = 0;
  for (let i = 1; i < part.length; i++) {
    const code = part.charCodeAt(i);
    while (length > 0 && code !== part.charCodeAt(length)) length = borders[length - 1]!;
    if (code === part.charCodeAt(length)) length++;
    borders[i] = length;
  }
  return borders;
}
