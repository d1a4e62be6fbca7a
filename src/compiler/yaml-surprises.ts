const OLD_BOOLEAN = /^(?:yes|no|on|off)$/i;
const LEADING_ZERO = /^[-+]?0[0-9_]+$/;
const OCTAL = /^[-+]?0o[0-7]+$/;
const UNDERSCORED = /^[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?$/;
const SEXAGESIMAL = /^[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?$/;
const OLD_TRUE: ReadonlySet<string> = new Set(['yes', 'on']);

/**
 * Says what is surprising about a bare word or number, if something is. YAML 1.1, which most other tools of this
 * language read, and YAML 1.2 disagree on these; guessing would change what a playbook means without a word.
 */
export function surprise(written: string, value: unknown): string | undefined {
  if (OLD_BOOLEAN.test(written)) {
    const boolean = OLD_TRUE.has(written.toLowerCase());
    return `${written} is a text or ${boolean}, depending on who reads it; write ${boolean} or '${written}'`;
  }
  if (LEADING_ZERO.test(written) || OCTAL.test(written)) {
    return `${written} is octal or decimal, depending on who reads it; write '${written}' or the number without leading zeros`;
  }
  if (UNDERSCORED.test(written)) {
    return `${written} is a number or a text, depending on who reads it; write it without _ or in quotes`;
  }
  if (SEXAGESIMAL.test(written)) {
    return `${written} is a text or a number to base 60, depending on who reads it; write '${written}'`;
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) return `a plan cannot hold ${written}; leave it out or write it in quotes`;
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      return `${written} is too large to be kept exactly; write it in quotes`;
    }
  }
  return undefined;
}
