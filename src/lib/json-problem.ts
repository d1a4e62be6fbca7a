import { canonicalJson } from './canonical-json.ts';

const MAX_PATH = 500;

/** Where a value is that canonical JSON cannot say, as a JSON pointer, and why. For the message of a refusal: it is slow. */
export function jsonProblem(value: unknown): { path: string; message: string } | undefined {
  const message = refusal(value);
  if (message === undefined) return undefined;
  let path = '';
  let at = value;
  while (typeof at === 'object' && at !== null && path.length <= MAX_PATH) {
    const parent = at as Record<string, unknown>;
    const key = Object.keys(parent).find((name) => parent[name] !== undefined && refusal(parent[name]) !== undefined);
    if (key === undefined) break;
    path += `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    at = parent[key];
  }
  return { path: path.length > MAX_PATH ? `${path.slice(0, MAX_PATH)}...` : path, message };
}

function refusal(value: unknown): string | undefined {
  try {
    canonicalJson(value);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
