import { AppError } from '../../contracts/errors.ts';

/**
 * Given on the command line, where they win over the files in the data folder and follow the version of this code.
 * Durability is as strict as Postgres has it; the rest keeps a server on a laptop small.
 */
const DEFAULTS: Readonly<Record<string, string>> = {
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  max_connections: '200',
  shared_buffers: '64MB',
  // Nothing replicates from here, so the log need not carry what replicas want, and their processes need not run.
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_logical_replication_workers: '0',
  // Reads come from memory mostly; three I/O processes would only cost memory.
  io_method: 'sync',
  // Parallel queries take memory from /dev/shm, of which a container has 64 MB, and fail when it is used up.
  max_parallel_workers_per_gather: '0',
  huge_pages: 'off',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  // Statements and row contents may hold payloads; they stay out of the log.
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
};

/** What makes the server private. A caller cannot change these. */
function fixedSettings(socketDir: string, port: number): Record<string, string> {
  return {
    listen_addresses: '',
    unix_socket_directories: socketDir,
    unix_socket_permissions: '0700',
    port: String(port),
    logging_collector: 'off',
    log_destination: 'stderr',
  };
}

export function settingArguments(socketDir: string, port: number, own: Readonly<Record<string, string>>): string[] {
  const fixed = fixedSettings(socketDir, port);
  const args: string[] = [];
  for (const [name, value] of Object.entries({ ...DEFAULTS, ...own, ...fixed })) {
    if (!/^[a-z_][a-z0-9_.]*$/i.test(name) || (name.toLowerCase() in fixed && name in own)) {
      throw new AppError(
        'CONFIG_INVALID',
        `The setting ${JSON.stringify(name)} of the embedded Postgres cannot be set.`,
      );
    }
    args.push('-c', `${name}=${value}`);
  }
  return args;
}
