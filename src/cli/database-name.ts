import type { Settings } from '../runtime/config.ts';

/** Where the database is, as people say it; never with a password. */
export function databaseName({ databaseUrl, folder }: Settings): string {
  return databaseUrl === undefined ? `embedded in ${folder}` : `at ${hostOf(databaseUrl)}`;
}

function hostOf(url: string): string {
  try {
    const { hostname, port, pathname } = new URL(url);
    return `${hostname}${port === '' ? '' : `:${port}`}${pathname}`;
  } catch {
    return 'DATABASE_URL';
  }
}
