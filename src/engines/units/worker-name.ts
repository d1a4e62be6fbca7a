import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { isGone, ownIdentity } from '../../lib/process-identity.ts';

/**
 * The name under which a process holds leases: host, process id, start of the process, tag of the host and a number of its own. Where
 * the system does not say enough, start and tag are missing, and nobody can tell that such a process is dead.
 */
export function workerName(): string {
  const own = ownIdentity();
  const sure = own ? `:${own.startedAt}:${own.hostTag}` : '';
  return `${hostname()}:${process.pid}${sure}:${randomUUID().slice(0, 8)}`;
}

const NAME = /:(\d+):([0-9a-z]+):([0-9a-f]{12}):[0-9a-f]{8}$/;

export const hostTagOf = (owner: string): string | undefined => NAME.exec(owner)?.[3];

/** Those of these workers of the own host that do not live any more. */
export function deadOwners(owners: readonly string[]): string[] {
  return owners.filter((owner) => {
    const found = NAME.exec(owner);
    return found !== null && isGone({ pid: Number(found[1]), startedAt: found[2]! });
  });
}
