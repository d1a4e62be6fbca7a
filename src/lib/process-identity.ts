import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** A process so that another one on the same host can tell whether it still runs. */
export interface ProcessIdentity {
  /** The machine, its boot and the namespace in which the process id counts. */
  readonly hostTag: string;
  readonly pid: number;
  /** When it started, in the system's own counting: another process under the same id has another one. */
  readonly startedAt: string;
}

/** Undefined where the system does not say enough to be sure later. */
export function ownIdentity(): ProcessIdentity | undefined {
  const boot = bootId();
  const startedAt = startOf(process.pid);
  if (boot === undefined || startedAt === undefined) return undefined;
  const parts = [hostname(), readOr('/etc/machine-id'), boot, linkOr('/proc/self/ns/pid')];
  const hostTag = createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 12);
  return { hostTag, pid: process.pid, startedAt };
}

/** True only if it is certain. Ask for identities of the own host tag alone. */
export function isGone({ pid, startedAt }: Pick<ProcessIdentity, 'pid' | 'startedAt'>): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // Somebody else's process may not be signalled, and may not even be shown: it is there.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return true;
  }
  const found = startOf(pid);
  return found !== undefined && found !== startedAt;
}

/** 'ended' for a zombie: it holds its number, and will never do anything again. */
function startOf(pid: number): string | undefined {
  if (process.platform !== 'linux') return listedStart(pid);
  const line = readOr(`/proc/${pid}/stat`);
  // "pid (name) state ...": the name may itself hold spaces and parentheses.
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
  if (fields[0] === 'Z' || fields[0] === 'X') return 'ended';
  const ticks = fields[19];
  return ticks === undefined ? undefined : Number(ticks).toString(36);
}

function listedStart(pid: number): string | undefined {
  const line = run('/bin/ps', ['-o', 'state=,lstart=', '-p', String(pid)]);
  const [state = '', ...start] = line?.split(/\s+/) ?? [];
  if (state.startsWith('Z')) return 'ended';
  const millis = Date.parse(start.join(' '));
  return Number.isNaN(millis) ? undefined : (millis / 1000).toString(36);
}

function bootId(): string | undefined {
  if (process.platform === 'linux') return readOr('/proc/sys/kernel/random/boot_id') || undefined;
  return run('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid']);
}

function run(command: string, args: readonly string[]): string | undefined {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim() || undefined;
  } catch {
    return undefined;
  }
}

function readOr(path: string): string {
  try {
    return readFileSync(path, 'latin1').trim();
  } catch {
    return '';
  }
}

function linkOr(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
