import { inputProblem } from '../outcomes.ts';
import type { Statement } from './split-statements.ts';

export type SqlParams = readonly unknown[] | Readonly<Record<string, unknown>> | undefined;

export interface BoundStatement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * Gives each statement the parameters that it uses, numbered from 1: `$n` from a list, `:name` from a mapping. One list serves
 * several statements. Values never become part of the text.
 */
export function bindParams(statements: readonly Statement[], params: SqlParams): BoundStatement[] {
  const used = new Set<number | string>();
  const bound = statements.map((statement) => bindOne(statement, params, used));
  if (Array.isArray(params)) {
    const spare = params.findIndex((_value, i) => !used.has(i + 1));
    if (spare >= 0)
      throw inputProblem(`\`params\` has ${params.length} values, but the SQL does not use $${spare + 1}`);
  }
  return bound;
}

function bindOne(statement: Statement, params: SqlParams, used: Set<number | string>): BoundStatement {
  const numbers = new Map<number | string, number>();
  const values: unknown[] = [];
  let text = '';
  let from = 0;
  for (const { start, end, key, inBrackets } of statement.placeholders) {
    if (!has(params, key)) {
      // A text without named parameters may hold `:name` for reasons of its own, such as a slice.
      if (typeof key === 'string' && (inBrackets || params === undefined || Array.isArray(params))) continue;
      const written = typeof key === 'number' ? `$${key}` : `:${key}`;
      throw inputProblem(`the SQL uses ${written}, but \`params\` has no such value`);
    }
    used.add(key);
    const asJson = /^\s*::\s*jsonb?\b(?!\s*\[)/i.test(statement.text.slice(end, end + 20));
    const slot = asJson ? `${key}::json` : key;
    let number = numbers.get(slot);
    if (number === undefined) {
      const value =
        typeof key === 'number' ? (params as readonly unknown[])[key - 1] : (params as Record<string, unknown>)[key];
      values.push(asJson && value !== null ? JSON.stringify(value) : value);
      number = values.length;
      numbers.set(slot, number);
    }
    text += `${statement.text.slice(from, start)}$${number}`;
    from = end;
  }
  return { text: text + statement.text.slice(from), values };
}

function has(params: SqlParams, key: number | string): boolean {
  if (params === undefined) return false;
  if (typeof key === 'number') return Array.isArray(params) && key >= 1 && key <= params.length;
  return !Array.isArray(params) && Object.hasOwn(params, key);
}
