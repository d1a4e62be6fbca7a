import { inputProblem } from '../outcomes.ts';
import type { Statement } from '../sql/split-statements.ts';

const READS: ReadonlySet<string> = new Set(['select', 'show', 'values', 'table']);

/**
 * Whether a statement is taken for a read, which then runs READ ONLY. A guess that is wrong costs an error that says so, never
 * an unnoticed write.
 */
export function isReadOnly({ words, mentionsWrite }: Statement): boolean {
  const first = words[0] ?? '';
  return READS.has(first) || ((first === 'with' || first === 'explain') && !mentionsWrite);
}

export function checkNoCopy({ words }: Statement): void {
  if (words[0] === 'copy') {
    throw inputProblem('COPY moves data outside of the statement, which postgres does not do; use the tool transfer');
  }
}

/** The table that a statement writes, for those who judge and read receipts. */
export function writeTarget({ text }: Statement): string | undefined {
  const pattern =
    /^\s*(?:insert\s+into|update(?:\s+only)?|delete\s+from(?:\s+only)?|merge\s+into|truncate(?:\s+table)?|(?:create|drop|alter)\s+table(?:\s+if(?:\s+not)?\s+exists)?)\s+([\w.]+|"[^"]+"(?:\."[^"]+")?)/i;
  return pattern.exec(text)?.[1];
}
