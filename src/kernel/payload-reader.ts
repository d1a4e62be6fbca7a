import type { ArtifactRef, ErrorInfo, StoredValue } from '../contracts/values.ts';

/**
 * Payloads are closed on write and open on read: an old, foreign or hostile log may hold anything. The fold reads
 * every field through these, so that a wrong shape reads as absent and never stops a projection.
 */
export type JsonObject = Readonly<Record<string, unknown>>;

const NOTHING: JsonObject = Object.freeze({});

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : NOTHING;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.length > 0 ? value : undefined;
}

export function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

export function countsOf(value: unknown): number[] {
  return Array.isArray(value) ? value.filter((item) => countOf(item) !== undefined) : [];
}

const NO_ARTIFACTS: readonly ArtifactRef[] = Object.freeze([]);

export function artifactsOf(value: unknown): readonly ArtifactRef[] {
  if (!Array.isArray(value) || value.length === 0) return NO_ARTIFACTS;
  return value.filter(
    (item): item is ArtifactRef =>
      isObject(item) && typeof item['uri'] === 'string' && typeof item['kind'] === 'string',
  );
}

export function storedValueOf(value: unknown): StoredValue | undefined {
  if (!isObject(value)) return undefined;
  if (Object.hasOwn(value, 'value')) return value as StoredValue;
  return isObject(value['ref']) && typeof value['ref']['uri'] === 'string' ? (value as StoredValue) : undefined;
}

/** One error shape, code and retryable always filled, whatever the log holds. */
export function errorOf(value: unknown): ErrorInfo {
  const error = objectOf(value);
  return {
    category: textOf(error['category']) ?? 'unknown',
    code: textOf(error['code']) ?? 'UNKNOWN',
    message: typeof error['message'] === 'string' ? error['message'] : '',
    retryable: error['retryable'] === true,
  };
}

/** What a snapshot shows where the error itself was erased. */
export const ERASED_ERROR: ErrorInfo = Object.freeze({
  category: 'erased',
  code: 'PAYLOAD_ERASED',
  message: '',
  retryable: false,
});
