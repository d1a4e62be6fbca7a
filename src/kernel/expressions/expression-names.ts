import type { Callable } from './callable.ts';
import { FILTERS, REFUSED_FILTERS } from './filters/filters.ts';
import { GLOBALS, REFUSED_GLOBALS } from './globals.ts';
import { METHODS, REFUSED_METHODS } from './methods.ts';
import { TESTS } from './tests.ts';

export interface ExpressionName {
  readonly name: string;
  /** Python's names of the arguments, in order. */
  readonly params: readonly string[];
  readonly summary: string;
}

/** A name that people know from Jinja or Python and that is refused, with the reason or the replacement. */
export interface RefusedName {
  readonly name: string;
  readonly reason: string;
}

const listed = (table: Readonly<Record<string, Callable>>): readonly ExpressionName[] =>
  Object.entries(table).map(([name, { params, summary }]) => ({ name, params, summary }));

const refused = (table: Readonly<Record<string, string>>): readonly RefusedName[] =>
  Object.entries(table).map(([name, reason]) => ({ name, reason }));

/** Everything that a template can name besides the scope; documentation and suggestions are made from it. */
export const EXPRESSION_NAMES = {
  filters: listed(FILTERS),
  tests: listed(TESTS),
  methods: Object.entries(METHODS).map(([name, { params, summary, receivers }]) => ({
    name,
    params,
    summary,
    receivers,
  })),
  functions: listed(GLOBALS),
  refused: {
    filters: refused(REFUSED_FILTERS),
    methods: refused(REFUSED_METHODS),
    functions: refused(REFUSED_GLOBALS),
  },
} as const;
