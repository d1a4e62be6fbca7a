import { didYouMean } from '../../../lib/closest-name.ts';
import { attributeReader, bindValues, type Callable, type CallableTable, NO_KEYWORDS } from '../callable.ts';
import type { Evaluation } from '../evaluation.ts';
import { syntaxError, typeError } from '../failure.ts';
import { describe, iterate, type Mapping, ownValue } from '../values.ts';

/** Filters that apply another filter or test to each item. They get the tables from outside, being part of one themselves. */
export function eachFilters(filters: () => CallableTable, tests: () => CallableTable<boolean>): CallableTable {
  const chosen = (isWanted: boolean, byAttribute: boolean): Callable['apply'] => {
    return (ev, value, args) => {
      const read = byAttribute ? attributeReader(ev, args[0]) : (element: unknown) => element;
      const [name, ...rest] = byAttribute ? args.slice(1) : args;
      const matches =
        name === undefined ? (element: unknown) => ev.truthy(element) : testByName(ev, tests(), name, rest);
      const out: unknown[] = [];
      for (const element of items(ev, value)) {
        ev.charge(1);
        if (matches(read(element)) === isWanted) out.push(element);
      }
      return ev.list(out);
    };
  };
  return {
    map: {
      params: ['filter'],
      variadic: true,
      summary:
        "Each item through a filter, `map('upper')`, or an attribute of each, `map(attribute='a.b', default=0)`.",
      apply: (ev, value, args, keywords) => {
        const change = mapper(ev, filters(), args, keywords);
        const out: unknown[] = [];
        for (const element of items(ev, value)) {
          ev.charge(1);
          out.push(change(element));
        }
        return ev.list(out);
      },
    },
    select: {
      params: ['test'],
      variadic: true,
      summary: 'The items that pass a test, or that are true.',
      apply: chosen(true, false),
    },
    reject: {
      params: ['test'],
      variadic: true,
      summary: 'The items that do not pass a test, or that are false.',
      apply: chosen(false, false),
    },
    selectattr: {
      params: ['attribute', 'test'],
      required: 1,
      variadic: true,
      summary: "The items whose attribute passes a test: `selectattr('status', 'eq', 'ok')`.",
      apply: chosen(true, true),
    },
    rejectattr: {
      params: ['attribute', 'test'],
      required: 1,
      variadic: true,
      summary: 'The items whose attribute does not pass a test.',
      apply: chosen(false, true),
    },
  };
}

/** As in Jinja these filters, unlike others, take none for an empty list. */
function items(ev: Evaluation, value: unknown): readonly unknown[] {
  return value === null ? [] : iterate(ev, value);
}

function mapper(
  ev: Evaluation,
  filters: CallableTable,
  args: readonly unknown[],
  keywords: Mapping,
): (value: unknown) => unknown {
  if (args.length === 0 && Object.hasOwn(keywords, 'attribute')) {
    const unknown = Object.keys(keywords).find((name) => name !== 'attribute' && name !== 'default');
    if (unknown !== undefined) throw syntaxError(`the filter 'map' has no argument '${unknown}' beside 'attribute'`);
    const read = attributeReader(ev, ownValue(keywords, 'attribute'));
    const fallback = ownValue(keywords, 'default');
    return (value) => {
      const found = read(value);
      return found === undefined ? fallback : found;
    };
  }
  const [name, ...rest] = args;
  const filter = byName(filters, name, 'filter');
  const call = bindValues(`the filter '${String(name)}'`, filter, rest, keywords);
  return RAW.has(String(name)) ? (value) => call(ev, value) : (value) => call(ev, ev.open(value));
}

/** These ask whether there is a value, and must not fetch one to find out. */
const RAW: ReadonlySet<string> = new Set(['default', 'd', 'defined', 'undefined']);

function testByName(
  ev: Evaluation,
  tests: CallableTable<boolean>,
  name: unknown,
  args: readonly unknown[],
): (value: unknown) => boolean {
  const test = byName(tests, name, 'test');
  const call = bindValues(`the test '${String(name)}'`, test, args, NO_KEYWORDS);
  return RAW.has(String(name)) ? (value) => call(ev, value) : (value) => call(ev, ev.open(value));
}

function byName<Result>(table: CallableTable<Result>, name: unknown, kind: 'filter' | 'test'): Callable<Result> {
  if (typeof name !== 'string') throw typeError(`the name of a ${kind} is text, not ${describe(name)}`);
  const found = Object.hasOwn(table, name) ? table[name] : undefined;
  if (found === undefined) {
    throw syntaxError(`there is no ${kind} '${name}'${didYouMean(name, Object.keys(table))}`, undefined, { name });
  }
  return found;
}
