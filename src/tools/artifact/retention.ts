import { AppError } from '../../contracts/errors.ts';

/** Days that an artifact of a kind is kept; `*` is for the kinds that are not named. A kind without a row is kept for ever. */
export type RetentionPolicy = Readonly<Record<string, number>>;

const DAY_MS = 24 * 3600 * 1000;

/** When an artifact of this kind may go, as UTC text; undefined where it is kept. */
export function expiryOf(kind: string, policy: RetentionPolicy = {}, nowMs: number): string | undefined {
  if (kind === '' || kind.length > 200) throw new AppError('USAGE', 'the kind of an artifact must be a short text');
  const days = Object.hasOwn(policy, kind) ? policy[kind] : policy['*'];
  if (days === undefined) return undefined;
  if (!Number.isFinite(days) || days < 0) {
    throw new AppError('CONFIG_INVALID', `the retention of '${kind}' must be a number of days`);
  }
  return new Date(nowMs + days * DAY_MS).toISOString();
}
