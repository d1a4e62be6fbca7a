/** How deep the lists and mappings of a JSON text lie in each other, told without building them. */
export function nestingOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (inString) {
      if (char === BACKSLASH) i++;
      else if (char === QUOTE) inString = false;
    } else if (char === QUOTE) inString = true;
    else if (char === OPEN_LIST || char === OPEN_MAPPING) deepest = Math.max(deepest, ++depth);
    else if (char === CLOSE_LIST || char === CLOSE_MAPPING) depth--;
  }
  return deepest;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_MAPPING = 0x7b;
const CLOSE_MAPPING = 0x7d;
