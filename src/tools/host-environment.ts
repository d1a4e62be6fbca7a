/** What programs need of the host, and nothing that could be a secret of our own process. */
const PASSED_ON = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TMPDIR', 'TZ'] as const;
const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';

export type HostEnvironment = Readonly<Record<string, string | undefined>>;

export function minimalEnvironment(host: HostEnvironment): Record<string, string> {
  const environment: Record<string, string> = { PATH: DEFAULT_PATH, LANG: 'C.UTF-8' };
  for (const name of PASSED_ON) {
    const value = host[name];
    if (value !== undefined && value !== '') environment[name] = value;
  }
  return environment;
}
