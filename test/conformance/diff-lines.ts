/** What differs between two lists of lines, `-` for the first and `+` for the second, with a line of context. */
export function diffLines(left: readonly string[], right: readonly string[]): string {
  // The longest common subsequence, from the end, so that the walk goes forward.
  const width = right.length + 1;
  const lengths = new Uint32Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        left[i] === right[j]
          ? (lengths[(i + 1) * width + j + 1] as number) + 1
          : Math.max(lengths[(i + 1) * width + j] as number, lengths[i * width + j + 1] as number);
    }
  }
  const marked: string[] = [];
  for (let i = 0, j = 0; i < left.length || j < right.length; ) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      marked.push(`  ${left[i]}`);
      i += 1;
      j += 1;
    } else if (
      j >= right.length ||
      (i < left.length && (lengths[(i + 1) * width + j] as number) >= (lengths[i * width + j + 1] as number))
    ) {
      marked.push(`- ${left[i]}`);
      i += 1;
    } else {
      marked.push(`+ ${right[j]}`);
      j += 1;
    }
  }
  const isShown = (at: number): boolean => [at - 1, at, at + 1].some((near) => /^[-+] /.test(marked[near] ?? ''));
  return marked.filter((_line, at) => isShown(at)).join('\n');
}
