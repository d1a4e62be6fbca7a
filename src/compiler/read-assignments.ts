import type { CompileContext } from './compile-context.ts';
import { type Path, under } from './form-reader.ts';
import { isNull, type Json, type Located, type LocatedMap, pointerPart } from './located.ts';
import { RESERVED_WORDS, type Scope } from './scopes.ts';

export type Assignments = Record<string, Json>;

const SCOPED = /^(?:ctx|iter)(?:\.[^.\s]+)+$/;
const CTX = /^ctx(?:\.[^.\s]+)+$/;
const BARE = /^[A-Za-z_]\w*$/;

export interface AssignmentPlace {
  readonly path: Path;
  readonly pointer: string;
  readonly scope: Scope;
  /** Inside a pipeline its iteration and its own names can be set; once the step has ended, only ctx is left. */
  readonly inPipeline: boolean;
}

/** The assignments of a mapping that may have `set`, `set_ctx` and `set_iter`; all three give one list. */
export function readSet(context: CompileContext, owner: LocatedMap, place: AssignmentPlace): Assignments | undefined {
  const found: Assignments = {};
  for (const [field, prefix] of SPELLINGS) {
    const node = owner.entries.get(field)?.value;
    if (node === undefined || isNull(node)) continue;
    const path = under(place.path, field);
    const map = context.reader.map(node, path);
    if (map) collect(context, map, prefix, { ...place, path, pointer: `${place.pointer}/set` }, found);
  }
  return Object.keys(found).length > 0 ? found : undefined;
}

/** A hook: a list of assignments, each a mapping, or one under `set`. */
export function readHook(
  context: CompileContext,
  node: Located | undefined,
  place: AssignmentPlace,
): Assignments[] | undefined {
  const list = context.reader.list(node, place.path);
  const hooks = list?.items.flatMap((item, i) => {
    const path = `${place.path}[${i}]`;
    const map = context.reader.map(item, path);
    if (!map) return [];
    const found: Assignments = {};
    const wrapped = map.entries.size === 1 ? [...map.entries.values()][0] : undefined;
    const inner = wrapped && SPELLINGS.has(wrapped.key) ? wrapped : undefined;
    const body = inner ? context.reader.map(inner.value, under(path, inner.key)) : map;
    if (body)
      collect(
        context,
        body,
        SPELLINGS.get(inner?.key ?? '') ?? '',
        { ...place, path, pointer: `${place.pointer}/${i}` },
        found,
      );
    return Object.keys(found).length > 0 ? [found] : [];
  });
  return hooks && hooks.length > 0 ? hooks : undefined;
}

const SPELLINGS: ReadonlyMap<string, string> = new Map([
  ['set', ''],
  ['set_ctx', 'ctx.'],
  ['set_iter', 'iter.'],
]);

function collect(
  context: CompileContext,
  map: LocatedMap,
  prefix: string,
  place: AssignmentPlace,
  found: Assignments,
): void {
  const { reader, templates } = context;
  for (const { key, keyOffset, value } of map.entries.values()) {
    const path = under(place.path, key);
    if (prefix === '' && (key === 'ctx' || key === 'iter') && value.kind === 'map') {
      collect(context, value, `${key}.`, { ...place, path }, found);
      continue;
    }
    const name = prefix + key;
    if (!isTarget(name, place.inPipeline)) {
      const cure = BARE.test(key)
        ? `write \`ctx.${key}\``
        : `write \`ctx.NAME\`${place.inPipeline ? ' or `iter.NAME`' : ''}`;
      const why = RESERVED_WORDS.has(key) ? 'cannot be written' : 'is nothing that can be set here';
      reader.problem('INVALID_STEP_SCHEMA', keyOffset, path, `\`${key}\` ${why}; ${cure}`);
      continue;
    }
    if (Object.hasOwn(found, name)) {
      reader.problem('CONFLICT', keyOffset, path, `\`${name}\` is set twice here; keep one of them`);
      continue;
    }
    found[name] = templates.value(value, path, `${place.pointer}/${pointerPart(name)}`, place.scope);
  }
}

function isTarget(name: string, inPipeline: boolean): boolean {
  if (name.length > 512) return false;
  if (!inPipeline) return CTX.test(name);
  return SCOPED.test(name) || (BARE.test(name) && !RESERVED_WORDS.has(name));
}

/** The bare names that a task assigns, wherever in it: later tasks of the pipeline read them. */
export function localNames(node: Located, into: Set<string>, depth = 0): void {
  if (depth > 8) return;
  if (node.kind === 'list') for (const item of node.items) localNames(item, into, depth + 1);
  if (node.kind !== 'map') return;
  for (const { key, value } of node.entries.values()) {
    if (key === 'set' && value.kind === 'map') {
      for (const name of value.entries.keys()) if (BARE.test(name) && !RESERVED_WORDS.has(name)) into.add(name);
    } else if (HOLDERS.has(key)) localNames(value, into, depth + 1);
    if (HOOKS.has(key) && value.kind === 'list') {
      for (const item of value.items) {
        if (item.kind !== 'map') continue;
        for (const name of item.entries.keys())
          if (name !== 'set' && BARE.test(name) && !RESERVED_WORDS.has(name)) into.add(name);
      }
    }
  }
}

const HOOKS: ReadonlySet<string> = new Set(['before', 'after', 'finally']);
const HOLDERS: ReadonlySet<string> = new Set(['spec', 'policy', 'rules', 'then', 'else', ...HOOKS]);
