import { randomUUID } from 'node:crypto';
import { open, readFile, readlink, rename, statfs } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { runCommand } from './run-command.ts';

/** What a pid needs before it means anything: the machine, the boot and the pid namespace it counts in. */
export interface HostIdentity {
  readonly host: string;
  readonly bootId: string;
  readonly pidNamespace: string;
}

const FILE = 'runledger-host.json';

export async function currentIdentity(): Promise<HostIdentity> {
  return {
    host: await host(),
    bootId: await bootId(),
    pidNamespace: await readlink('/proc/self/ns/pid').catch(() => 'none'),
  };
}

async function host(): Promise<string> {
  if (process.platform === 'darwin') {
    // A Mac's name changes with the network; its hardware id does not.
    const listed = await runCommand('/usr/sbin/ioreg', ['-rd1', '-c', 'IOPlatformExpertDevice']);
    const uuid = /"IOPlatformUUID" = "([^"]+)"/.exec(listed.output)?.[1];
    if (uuid !== undefined) return uuid;
  }
  // A cloned machine has the name of the other, or its machine id; seldom both.
  const machineId = await readFile('/etc/machine-id', 'utf8').catch(() => '');
  return `${hostname()}/${machineId.trim()}`;
}

async function bootId(): Promise<string> {
  try {
    return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
  } catch {
    const result = await runCommand('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid']);
    return result.code === 0 ? result.output : 'unknown';
  }
}

/**
 * Notes in the data folder who is about to start a server there. It is written before the server runs, so whenever there is
 * a postmaster.pid there is a note of where its pid counts, whoever was killed in between.
 */
export async function writeIdentity(dataDir: string, identity: HostIdentity): Promise<void> {
  const temporary = join(dataDir, `${FILE}.${randomUUID().slice(0, 8)}`);
  const file = await open(temporary, 'wx', 0o644);
  try {
    await file.writeFile(JSON.stringify(identity));
    // Without it a power failure could leave a pid file beside an empty note, and the next start would have to refuse.
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, join(dataDir, FILE));
}

export async function readIdentity(dataDir: string): Promise<HostIdentity | undefined> {
  try {
    const value = JSON.parse(await readFile(join(dataDir, FILE), 'utf8')) as Partial<HostIdentity> | null;
    const { host, bootId, pidNamespace } = value ?? {};
    if (typeof host !== 'string' || typeof bootId !== 'string' || typeof pidNamespace !== 'string') return undefined;
    return { host, bootId, pidNamespace };
  } catch {
    return undefined;
  }
}

/** ext, xfs, btrfs, zfs, f2fs, bcachefs, tmpfs, overlay: types that two running machines cannot have mounted at once. */
const LOCAL_FILE_SYSTEMS = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x2fc12fc1, 0xf2f52010, 0xca451a4e, 0x01021994, 0x794c7630,
]);

/** Whether no other machine can be using the folder; false where that is not known. */
export async function isLocal(folder: string): Promise<boolean> {
  // The hardware id already tells two Macs apart.
  if (process.platform === 'darwin') return true;
  return LOCAL_FILE_SYSTEMS.has((await statfs(folder)).type);
}
