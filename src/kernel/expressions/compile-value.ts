import { AppError } from '../../contracts/errors.ts';
import { compileTemplate } from './compile-template.ts';
import { type EvalOptions, NeedValues, type Scope } from './evaluation.ts';
import { placedAt } from './failure.ts';
import { isMapping, MAX_VALUE_DEPTH, ownValue, setOwn } from './values.ts';

/** Where in a value: keys and indexes from the top, and where the value stands in its plan. */
interface Place {
  readonly path: readonly (string | number)[];
  readonly pointer: string | undefined;
}

function below({ path, pointer }: Place, key: string | number): Place {
  if (pointer === undefined) return { path: [...path, key], pointer };
  const part = String(key).replaceAll('~', '~0').replaceAll('/', '~1');
  return { path: [...path, key], pointer: `${pointer}/${part}` };
}

/** A JSON value whose texts are templates. Keys are never templates. */
export interface CompiledValue {
  /** Root names that its templates read, each once. */
  readonly roots: readonly string[];
  /** No template inside: `evaluate` gives the very value that was compiled. */
  readonly isStatic: boolean;
  /**
   * The value with every template replaced by its result; an undefined one becomes null in a list and is left out of a
   * mapping. Errors carry `details.path`. If stored values are missing, NeedValues names those of all templates at once.
   */
  evaluate(scope: Scope, options?: EvalOptions): unknown;
}

type Build = (scope: Scope, options: EvalOptions | undefined, needs: Set<string>) => unknown;

/**
 * Compiles the templates in a value. Errors are those of compileTemplate, with `details.path`; with the JSON pointer of
 * the value in its plan, errors of evaluation name the template's place in their message.
 */
export function compileValue(value: unknown, pointer?: string): CompiledValue {
  const roots = new Set<string>();
  const build = compile(value, { path: [], pointer }, roots);
  if (build === undefined) return { roots: [], isStatic: true, evaluate: () => value };
  return {
    roots: [...roots],
    isStatic: false,
    evaluate: (scope, options) => {
      const needs = new Set<string>();
      const result = build(scope, options, needs);
      if (needs.size > 0) throw new NeedValues([...needs]);
      return result;
    },
  };
}

/** A function that builds the value, or undefined if there is nothing to build. */
function compile(value: unknown, place: Place, roots: Set<string>): Build | undefined {
  const { path } = place;
  if (typeof value === 'string') return compileText(value, place, roots);
  if (value === null || typeof value === 'boolean' || typeof value === 'number' || value === undefined)
    return undefined;
  if (path.length > MAX_VALUE_DEPTH) {
    throw new AppError('TEMPLATE_LIMIT', `a value is nested deeper than ${MAX_VALUE_DEPTH} levels`, { path });
  }
  if (Array.isArray(value)) return compileList(value, place, roots);
  if (isMapping(value)) return compileMapping(value, place, roots);
  throw new AppError('TEMPLATE_TYPE', 'a value that is not JSON cannot hold templates', { path });
}

function compileText(text: string, place: Place, roots: Set<string>): Build | undefined {
  const template = at(place, () => compileTemplate(text));
  if (template.isStatic) return undefined;
  for (const root of template.roots) roots.add(root);
  return (scope, options, needs) => {
    try {
      return template.evaluate(scope, options);
    } catch (thrown) {
      // Go on with the other templates, so that one answer names everything that has to be fetched.
      if (!(thrown instanceof NeedValues)) throw withPlace(thrown, place);
      for (const ref of thrown.refs) needs.add(ref);
      return undefined;
    }
  };
}

function compileList(list: readonly unknown[], place: Place, roots: Set<string>): Build | undefined {
  const builds = list.map((element, i) => compile(element, below(place, i), roots));
  if (builds.every((build) => build === undefined)) return undefined;
  return (scope, options, needs) =>
    builds.map((build, i) => (build === undefined ? list[i] : (build(scope, options, needs) ?? null)));
}

function compileMapping(mapping: object, place: Place, roots: Set<string>): Build | undefined {
  const entries = Object.keys(mapping).map((key) => {
    const value = ownValue(mapping, key);
    return { key, value, build: compile(value, below(place, key), roots) };
  });
  if (entries.every(({ build }) => build === undefined)) return undefined;
  return (scope, options, needs) => {
    const result: Record<string, unknown> = {};
    for (const { key, value, build } of entries) {
      const content = build === undefined ? value : build(scope, options, needs);
      if (content !== undefined) setOwn(result, key, content);
    }
    return result;
  };
}

function at<T>(place: Place, compileIt: () => T): T {
  try {
    return compileIt();
  } catch (thrown) {
    throw withPlace(thrown, place);
  }
}

function withPlace(thrown: unknown, { path, pointer }: Place): unknown {
  if (!(thrown instanceof AppError)) return thrown;
  const error = new AppError(thrown.code, thrown.message, { ...thrown.details, path }, { cause: thrown });
  return pointer === undefined ? error : placedAt(error, pointer);
}
