import Type from 'typebox';
import { inputProblem } from '../outcomes.ts';
import type { SqlParams } from './bind-params.ts';
import { type Statement, splitStatements } from './split-statements.ts';

/** A text, or a list of texts. */
export const SqlText = Type.Union([Type.String({ minLength: 1 }), Type.Array(Type.String(), { minItems: 1 })]);
/** A list for `$1`, or a mapping for `:name`. */
export const SqlParamsField = Type.Union([
  Type.Array(Type.Unknown()),
  Type.Record(Type.String(), Type.Unknown()),
  Type.Null(),
]);

interface SqlFields {
  readonly command: string | readonly string[];
  readonly params?: SqlParams | null;
}

/** Words that end or begin a transaction. All statements of a task run in one that the tool begins and ends. */
const TRANSACTION: ReadonlySet<string> = new Set([
  'begin',
  'start',
  'commit',
  'end',
  'rollback',
  'abort',
  'savepoint',
  'release',
]);

export function statementsOf(kind: string, fields: SqlFields): Statement[] {
  const texts = typeof fields.command === 'string' ? [fields.command] : fields.command;
  const statements = texts.flatMap((text) => {
    if (text.includes('\0')) throw inputProblem(`\`command\` of ${kind} holds a NUL character`);
    return splitStatements(text);
  });
  if (statements.length === 0) throw inputProblem(`\`command\` of ${kind} holds no statement`);
  for (const { words } of statements) checkTransaction(kind, words);
  return statements;
}

/** The statements, or undefined where the call itself will say what is wrong with them. */
export function tryStatements(kind: string, fields: SqlFields): Statement[] | undefined {
  try {
    return statementsOf(kind, fields);
  } catch {
    return undefined;
  }
}

export function paramsOf(fields: SqlFields): SqlParams {
  return fields.params ?? undefined;
}

function checkTransaction(kind: string, words: readonly string[]): void {
  const [first = '', second = ''] = words;
  const isControl =
    TRANSACTION.has(first) ||
    (first === 'prepare' && second === 'transaction') ||
    (first === 'set' && (second === 'transaction' || (second === 'session' && words[2] === 'characteristics')));
  if (isControl) {
    throw inputProblem(
      `${kind} runs its statements in one transaction; remove \`${first.toUpperCase()}\` and its kind`,
    );
  }
}
