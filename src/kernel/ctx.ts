import { isObject, type JsonObject } from './payload-reader.ts';

/** Assigns each path of a patch; what was there before is copied along the path and never changed. */
export function patchCtx(ctx: JsonObject, set: JsonObject): JsonObject {
  let next = ctx;
  for (const path of Object.keys(set)) next = assign(next, path, 0, set[path]);
  return next;
}

// A computed key makes an own property whatever its name is, so `__proto__` is a key like any other.
function assign(target: JsonObject, path: string, from: number, value: unknown): JsonObject {
  const dot = path.indexOf('.', from);
  if (dot < 0) return { ...target, [path.slice(from)]: value };
  const key = path.slice(from, dot);
  const inner = Object.hasOwn(target, key) ? target[key] : undefined;
  return { ...target, [key]: assign(isObject(inner) ? inner : {}, path, dot + 1, value) };
}
