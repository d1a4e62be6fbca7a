import { AppError } from '../contracts/errors.ts';
import { type AddressPolicy, checkUrl, type Resolver } from '../lib/net-guard.ts';
import { download } from '../tools/http/download.ts';
import type { PlanLocation } from './plan-ref.ts';

export interface HttpPlanOptions {
  /** Exceptions, such as the address of a plan server of one's own network. */
  readonly addresses?: Partial<AddressPolicy>;
  /** Certificates of authorities that are trusted instead of the public ones, as PEM. */
  readonly ca?: string;
  readonly resolve?: Resolver;
}

const REFUSED: AddressPolicy = { refuse: ['loopback', 'link-local', 'metadata', 'reserved'] };

/**
 * Plans below an address, such as `https://plans.example.com/prod/`. Every hop must be below it too, and no name of it may lead to
 * this machine, to the local link or to a metadata service, in whatever spelling.
 */
export function httpPlanLocation(prefix: string, options: HttpPlanOptions = {}): PlanLocation {
  const policy: AddressPolicy = { ...REFUSED, ...options.addresses, schemes: ['http', 'https'] };
  const { href } = checked(prefix, policy);
  // Without the slash `https://plans.example.com` would also be the beginning of `https://plans.example.com.evil.com`.
  if (!href.endsWith('/')) throw new AppError('CONFIG_INVALID', `The plan location '${prefix}' must end with a slash.`);
  const { ca, resolve } = options;
  return {
    prefix: href,
    async fetch(uri, limit) {
      const mayFollow = (url: URL): boolean => !url.username && !url.password && url.href.startsWith(href);
      try {
        const { status, bytes } = await download(uri, { policy, maxBytes: limit, mayFollow, ca, resolve });
        if (status === 200) return bytes;
        const code = status === 404 || status === 410 ? 'PLAN_NOT_FOUND' : 'PLAN_UNREACHABLE';
        throw new AppError(code, `${new URL(uri).origin} answered ${status} for the plan.`, { status });
      } catch (error) {
        throw planError(error, uri);
      }
    },
  };
}

function checked(prefix: string, policy: AddressPolicy): URL {
  try {
    return checkUrl(prefix, policy);
  } catch (error) {
    const reason = (error as Error).message;
    throw new AppError('CONFIG_INVALID', `'${prefix}' cannot be a plan location: ${reason}`, {}, { cause: error });
  }
}

function planError(error: unknown, uri: string): AppError {
  const { origin } = new URL(uri);
  if (!(error instanceof AppError)) {
    const reason = (error as Error).message;
    return new AppError(
      'PLAN_UNREACHABLE',
      `The plan cannot be fetched from ${origin}: ${reason}`,
      {},
      { cause: error },
    );
  }
  if (error.code === 'URL_NOT_ALLOWED')
    return new AppError('PLAN_URI_NOT_ALLOWED', `Not from ${origin}: ${error.message}`);
  if (error.code === 'RESPONSE_TOO_LARGE') return new AppError('PLAN_TOO_LARGE', error.message, error.details);
  return error;
}
