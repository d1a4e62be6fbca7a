import { AppError } from '../../exports/engine.ts';
import type { TemporalSettings } from './options.ts';

/** What the two clients of Temporal say, each in the words of its own transport, and what it means. */
const MEANINGS: readonly (readonly [RegExp, string])[] = [
  [/dns error|lookup address|ENOTFOUND|EAI_AGAIN|name resolution failed/i, 'the name of the server cannot be resolved'],
  [/ConnectionRefused|ECONNREFUSED|connection refused/i, 'nothing answers at this address'],
  [
    /certificate|UnknownIssuer|InvalidContentType|tls|ssl/i,
    'no secure connection can be made; check the settings of tls',
  ],
  [/UNAUTHENTICATED|PERMISSION_DENIED|Unauthorized/i, 'the server refuses the credentials'],
  [/namespace.*not found|NOT_FOUND/i, 'the server has no such namespace'],
  [/DEADLINE_EXCEEDED|deadline exceeded|timed out|UNAVAILABLE/i, 'it does not answer in time'],
];
/** Whatever else it is, somebody may have to look it up; but not a page of it. */
const MOST = 300;

/** The server cannot be used: where it should be, why, and what to do about it. The client's own words stay in the cause. */
export function unreachable({ address, namespace }: TemporalSettings, cause: unknown): AppError {
  const said = String((cause as { message?: unknown } | null)?.message ?? cause);
  const meaning = MEANINGS.find(([pattern]) => pattern.test(said))?.[1] ?? said.slice(0, MOST);
  return new AppError(
    'ENGINE_UNAVAILABLE',
    `Temporal at ${address}, namespace '${namespace}', cannot be used: ${meaning}.`,
    {
      address,
      namespace,
      next: `Start the server (on this machine: temporal server start-dev), or name another one with TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE, or \`temporal\` in the configuration.`,
    },
    { cause },
  );
}
