import type { StoredValue } from '../contracts/values.ts';
import { ExternalValue, ResultValue } from './expressions/external-value.ts';
import { isObject } from './payload-reader.ts';
import type { Finished } from './state.ts';

/** What templates see of a stored value: itself, or a stand-in that knows the extracted fields and asks for the rest. */
export function templateValue(stored: StoredValue | undefined): unknown {
  if (stored === undefined) return null;
  if ('value' in stored) return stored.value;
  return new ExternalValue({
    ref: stored.ref.uri,
    store: stored.store,
    totalBytes: stored.totalBytes,
    ...(stored.extracted === undefined ? {} : { fields: stored.extracted }),
    preview: stored.preview,
  });
}

const VALUES = new WeakMap<Finished, unknown>();

/**
 * What a template sees under the name of a finished step. A step that failed or was skipped is there too, so that a
 * handler can read why: `fetch.error.message`, `fetch.status`.
 */
export function finishedValue(step: Finished): unknown {
  const known = VALUES.get(step);
  if (known !== undefined) return known;
  const value = new ResultValue(templateValue(step.result), extraOf(step));
  VALUES.set(step, value);
  return value;
}

function extraOf(step: Finished): Record<string, unknown> {
  const extra: Record<string, unknown> = {};
  for (const [task, result] of Object.entries(step.taskResults ?? {}))
    extra[task] = new ResultValue(templateValue(result));
  if (step.loop) Object.assign(extra, step.loop);
  if (step.status === 'FAILED') {
    extra['error'] = step.error && { ...step.error, kind: step.error.category };
    // A result that the failing task gave may have a status of its own, such as that of a response.
    const { result } = step;
    if (result === undefined || ('value' in result && !isObject(result.value))) extra['status'] = 'error';
  }
  if (step.status === 'SKIPPED') Object.assign(extra, { status: 'skipped', reason: step.reason ?? '' });
  return extra;
}
