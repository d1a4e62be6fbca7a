import { readFile, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { AppError } from '../../contracts/errors.ts';
import type { RunAs } from './run-command.ts';

/**
 * Accounts that exist to run a server, best first. `daemon` is what base systems keep for programs that must own files;
 * accounts of other services (www-data, mail, ...) are left alone, because those services could then read the data.
 */
const PREFERRED = ['runledger', 'postgres', '_postgres', 'pgsql', 'daemon'];

export interface AccountChoice {
  /** Absent: the server runs as the account of this process. */
  readonly runAs: RunAs | undefined;
  readonly warning: string | undefined;
}

/**
 * Which account the server runs as. Postgres refuses to run as root and refuses data that its account does not own, so an
 * existing data folder decides by its owner, then the folder around it (so that its owner can go on without root).
 */
export async function chooseAccount(
  owners: readonly string[],
  passwdFile = '/etc/passwd',
  uid = process.getuid?.() ?? -1,
): Promise<AccountChoice> {
  if (uid !== 0) {
    requirePasswdEntry();
    return { runAs: undefined, warning: undefined };
  }
  const accounts = parsePasswd(await readFile(passwdFile, 'utf8'));
  for (const path of owners) {
    const owner = await ownerOf(path);
    const account = accounts.find((entry) => entry.uid === owner);
    if (account && account.uid !== 0) return { runAs: account, warning: undefined };
  }
  for (const name of PREFERRED) {
    const account = accounts.find((entry) => entry.name === name && entry.uid !== 0);
    if (account) return { runAs: account, warning: undefined };
  }
  const nobody = accounts.find((entry) => entry.name === 'nobody' && entry.uid !== 0);
  if (nobody) {
    return {
      runAs: nobody,
      warning:
        'running the embedded Postgres as `nobody`, which other services may share; make an account for it (useradd --system runledger)',
    };
  }
  throw new AppError(
    'EMBEDDED_UNAVAILABLE',
    'Postgres does not run as root, and this system has no unprivileged account to run it as. Make one (useradd --system runledger), start as an ordinary user, or set DATABASE_URL.',
  );
}

/** The accounts of a passwd file. Lines that are not accounts (comments, NIS markers) are passed over. */
export function parsePasswd(text: string): RunAs[] {
  const accounts: RunAs[] = [];
  for (const line of text.split('\n')) {
    const [name, , uid, gid] = line.split(':');
    if (!name || name.startsWith('#') || !/^\d+$/.test(uid ?? '') || !/^\d+$/.test(gid ?? '')) continue;
    accounts.push({ name, uid: Number(uid), gid: Number(gid) });
  }
  return accounts;
}

/** initdb refuses a uid without a passwd entry (usual in containers with an arbitrary uid); say so before it does, and how to go on. */
function requirePasswdEntry(): void {
  try {
    userInfo();
  } catch (cause) {
    throw new AppError(
      'EMBEDDED_UNAVAILABLE',
      `uid ${process.getuid?.()} has no passwd entry, and Postgres refuses to make a data folder for it. Add an entry, use another account, or set DATABASE_URL.`,
      {},
      { cause },
    );
  }
}

async function ownerOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).uid;
  } catch {
    return undefined;
  }
}
