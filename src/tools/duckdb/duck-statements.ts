import type { Statement } from '../sql/split-statements.ts';

const READS: ReadonlySet<string> = new Set([
  'select',
  'from',
  'values',
  'table',
  'show',
  'describe',
  'desc',
  'summarize',
  'pivot',
  'unpivot',
]);
/** What changes only the database itself. In memory nobody else sees it, and it ends with the call. */
const INSIDE: ReadonlySet<string> = new Set([
  'create',
  'insert',
  'update',
  'delete',
  'merge',
  'alter',
  'drop',
  'truncate',
  'set',
  'reset',
  'pragma',
  'load',
  'analyze',
]);
/** What reaches outside of the transaction: a file that was written stays written when a later statement fails. */
const OUTSIDE: ReadonlySet<string> = new Set([
  'copy',
  'export',
  'import',
  'install',
  'attach',
  'detach',
  'call',
  'checkpoint',
  'force',
  'vacuum',
  'use',
]);

export function isDuckRead({ words, mentionsWrite }: Statement): boolean {
  const first = words[0] ?? '';
  if (READS.has(first)) return true;
  return (first === 'with' || first === 'explain') && !mentionsWrite && !words.includes('copy');
}

/** Whether the statement, on a database in memory, leaves nothing behind. */
export function staysInMemory(statement: Statement): boolean {
  const { words } = statement;
  if (isDuckRead(statement)) return true;
  // A persistent secret is a file in the home folder.
  return (INSIDE.has(words[0] ?? '') && !words.includes('secret')) || words[0] === 'with';
}

export function reachesOutside({ words }: Statement): boolean {
  return OUTSIDE.has(words[0] ?? '') || words.includes('secret') || (words[0] === 'explain' && words.includes('copy'));
}
