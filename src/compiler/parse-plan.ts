import { AppError } from '../contracts/errors.ts';
import { PLAN_SCHEMA_VERSION, type Plan } from '../contracts/plan.ts';
import { sha256Hex } from '../lib/hash.ts';
import { LIMITS } from './limits.ts';
import { locate } from './located.ts';
import { planProblems } from './plan-problems.ts';
import { findSecrets } from './secrets.ts';

/** How many minor versions back a plan may be. */
const MINOR_VERSIONS_BACK = 3;
/** Deeper values would exhaust the stack of whoever walks them. */
const MAX_DEPTH = 200;

export interface ParseOptions {
  /** The hash that the PlanRef promises. */
  readonly sha256?: string | undefined;
  readonly maxBytes?: number | undefined;
}

/**
 * Takes a plan from bytes that anybody may have written. Throws AppError before anything of it can be used:
 * PLAN_TOO_LARGE, PLAN_INTEGRITY_VALIDATION_FAILED, PLAN_SCHEMA_VERSION_UNSUPPORTED, SECRET_IN_PLAN or
 * INVALID_STEP_SCHEMA, with `details.problems` as JSON pointers.
 */
export function parsePlan(bytes: Uint8Array | string, options: ParseOptions = {}): { plan: Plan; sha256: string } {
  const size = typeof bytes === 'string' ? Buffer.byteLength(bytes) : bytes.byteLength;
  const limit = options.maxBytes ?? LIMITS.planBytes;
  if (size > limit) {
    throw new AppError('PLAN_TOO_LARGE', `the plan has ${size} bytes; at most ${limit} are taken`, { size, limit });
  }
  const actual = sha256Hex(bytes);
  const expected = options.sha256;
  if (expected !== undefined && expected !== actual) {
    const message = `the plan's bytes have the hash ${actual}, its reference says ${expected}`;
    throw new AppError('PLAN_INTEGRITY_VALIDATION_FAILED', message, { expected, actual });
  }
  const value = parseJson(bytes);
  checkVersion(value);
  const problems = planProblems(value);
  if (problems.length > 0) throw invalid(problems);
  const [secret] = findSecrets(locate(value));
  if (secret) {
    const message = `the plan holds a secret value at ${secret.path}: ${secret.what}`;
    throw new AppError('SECRET_IN_PLAN', message, { path: secret.path });
  }
  return { plan: value as Plan, sha256: actual };
}

/** Whether plans of this schema version run here: the same major version, this minor one or at most three before it. */
export function isSupportedSchemaVersion(version: string, current: string = PLAN_SCHEMA_VERSION): boolean {
  const [major, minor] = numbers(version) ?? [];
  const [ownMajor, ownMinor] = numbers(current)!;
  if (major === undefined || minor === undefined || major !== ownMajor) return false;
  return minor <= ownMinor && minor >= ownMinor - MINOR_VERSIONS_BACK;
}

function numbers(version: string): [number, number] | undefined {
  const match = /^v(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})$/.exec(version);
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

function checkVersion(value: unknown): void {
  const version =
    typeof value === 'object' && value !== null ? (value as { schemaVersion?: unknown }).schemaVersion : undefined;
  if (typeof version === 'string' && isSupportedSchemaVersion(version)) return;
  const found = typeof version === 'string' ? `'${version.slice(0, 20)}'` : 'none';
  const message = `the plan has the schema version ${found}; this runtime takes ${PLAN_SCHEMA_VERSION} and ${MINOR_VERSIONS_BACK} minor versions back`;
  throw new AppError('PLAN_SCHEMA_VERSION_UNSUPPORTED', message, { supported: PLAN_SCHEMA_VERSION });
}

function parseJson(bytes: Uint8Array | string): unknown {
  let value: unknown;
  try {
    const text = typeof bytes === 'string' ? bytes : new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    throw invalid([{ path: '', message: 'is not JSON in UTF-8' }]);
  }
  const trap = findTrap(value);
  if (trap !== undefined) throw invalid([{ path: '', message: trap }]);
  return value;
}

/** Looks for what a schema does not see: nesting, keys that reach for prototypes, characters that cannot be stored. */
function findTrap(root: unknown): string | undefined {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return `is nested more than ${MAX_DEPTH} deep`;
    const below: unknown[] = [];
    for (const value of level) {
      if (typeof value === 'string' && value.includes('\0')) return 'holds a NUL character';
      if (typeof value !== 'object' || value === null) continue;
      if (Object.hasOwn(value, '__proto__')) return 'holds the key __proto__';
      for (const item of Object.values(value)) below.push(item);
    }
    level = below;
  }
  return undefined;
}

function invalid(problems: readonly { path: string; message: string }[]): AppError {
  const first = problems[0]!;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : '';
  return new AppError('INVALID_STEP_SCHEMA', `${first.path || 'the plan'} ${first.message}${more}`, { problems });
}
