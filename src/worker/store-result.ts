import type { Task } from '../contracts/plan.ts';
import type { StoredValue } from '../contracts/values.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import type { ArtifactStore } from '../tools/tool.ts';

/** Results up to this size stay in the log where the playbook does not say. */
const INLINE_MAX_BYTES = 16 * 1024;
const PREVIEW_MAX_BYTES = 1024;

/** A result as the log holds it: the value, or its place outside with selected fields and a bounded preview. */
export async function storeResult(
  artifacts: ArtifactStore,
  value: unknown,
  options: Task['result'],
  kind = 'task-result',
): Promise<StoredValue> {
  const { text, plain } = toJson(value);
  const limit = options?.inlineMaxBytes ?? INLINE_MAX_BYTES;
  if (text.length <= limit && Buffer.byteLength(text) <= limit) return { value: plain };
  const bytes = Buffer.from(text);
  const { uri, sha256, sizeBytes, expiresAt } = await artifacts.put(bytes, kind);
  const extracted = extract(plain, options?.select);
  return {
    ref: { uri, kind, sha256, sizeBytes, ...(expiresAt === undefined ? {} : { expiresAt }) },
    store: artifacts.name,
    totalBytes: bytes.byteLength,
    ...(extracted === undefined ? {} : { extracted }),
    preview: preview(plain, options?.previewMaxBytes ?? PREVIEW_MAX_BYTES),
  };
}

/** JSON as it will be read back: what a tool returned may hold dates, undefined or numbers that JSON has no word for. */
function toJson(value: unknown): { text: string; plain: unknown } {
  if (value === undefined) return { text: 'null', plain: null };
  try {
    return { text: canonicalJson(value), plain: value };
  } catch {
    const plain: unknown = JSON.parse(JSON.stringify(value) ?? 'null');
    return { text: canonicalJson(plain), plain };
  }
}

function extract(value: unknown, select: readonly string[] | undefined): Record<string, unknown> | undefined {
  if (!select || typeof value !== 'object' || value === null) return undefined;
  const fields: Record<string, unknown> = {};
  for (const path of select) {
    let at: unknown = value;
    for (const key of path.split('.')) {
      at =
        typeof at === 'object' && at !== null && Object.hasOwn(at, key)
          ? (at as Record<string, unknown>)[key]
          : undefined;
    }
    if (at !== undefined) fields[path] = at;
  }
  return fields;
}

/** The beginning of a value, small enough for every event: the first entries that fit, texts cut. */
function preview(value: unknown, limit: number): unknown {
  if (typeof value === 'string') return value.slice(0, limit);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  const kept: [string, unknown][] = [];
  let room = limit;
  for (const [key, item] of entries) {
    const small = typeof item === 'string' ? item.slice(0, 200) : item;
    const size = (JSON.stringify(small) ?? 'null').length + key.length + 4;
    if (size > room) break;
    room -= size;
    kept.push([key, small]);
  }
  return Array.isArray(value) ? kept.map(([, item]) => item) : Object.fromEntries(kept);
}

/** A result inside of another one: a large one stays where it is, and is named with the fields that were selected. */
export function shownValue(stored: StoredValue | undefined): unknown {
  if (stored === undefined) return null;
  if ('value' in stored) return stored.value;
  const { ref, store, totalBytes, extracted, preview: beginning } = stored;
  return { ...extracted, _ref: ref.uri, _store: store, total_bytes: totalBytes, preview: beginning ?? null };
}

const decoder = new TextDecoder();

/** Fetches stored values by reference; the artifact store verifies their hash. */
export async function fetchValues(
  artifacts: ArtifactStore,
  refs: readonly string[],
  known: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const values: Record<string, unknown> = { ...known };
  for (const ref of refs) values[ref] = JSON.parse(decoder.decode(await artifacts.get(ref)));
  return values;
}

/** The value behind a stored one. */
export async function loadValue(artifacts: ArtifactStore, stored: StoredValue): Promise<unknown> {
  if ('value' in stored) return stored.value;
  return JSON.parse(decoder.decode(await artifacts.get(stored.ref.uri)));
}
