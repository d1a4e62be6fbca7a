import type { TemporalOptions } from '../engines/temporal/options.ts';

type Kind = 'text' | 'switch' | 'number' | 'texts';

const FIELDS: Readonly<Record<Exclude<keyof TemporalOptions, 'tls' | 'searchAttributes' | 'workflow'>, Kind>> = {
  address: 'text',
  namespace: 'text',
  apiKey: 'text',
  taskQueue: 'text',
  queuePerTenant: 'switch',
  tenants: 'texts',
  callTimeoutMs: 'number',
  maxActivitiesPerSecond: 'number',
  maxQueueActivitiesPerSecond: 'number',
  maxCachedWorkflows: 'number',
  sweepAfterMs: 'number',
};
const LIMITS: Readonly<Record<keyof NonNullable<TemporalOptions['workflow']>, Kind>> = {
  maxInFlight: 'number',
  maxEvents: 'number',
  maxBytes: 'number',
  handOverMs: 'number',
  heartbeatMs: 'number',
  activityMs: 'number',
  retryMs: 'number',
  maxRetryMs: 'number',
  idleMs: 'number',
};
const TLS: Readonly<Record<string, Kind>> = { caFile: 'text', certFile: 'text', keyFile: 'text', serverName: 'text' };

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What is wrong with `temporal` of a configuration, in words; undefined when nothing is. */
export function temporalProblem(value: unknown): string | undefined {
  if (!isObject(value)) return `'temporal' must be an object`;
  const { tls, searchAttributes, workflow, ...rest } = value;
  if (tls !== undefined && typeof tls !== 'boolean') {
    if (!isObject(tls)) return `'temporal.tls' must be true, false or an object`;
    const problem = fieldProblem('temporal.tls', tls, TLS);
    if (problem !== undefined) return problem;
  }
  if (searchAttributes !== undefined && typeof searchAttributes !== 'boolean' && searchAttributes !== 'registered')
    return `'temporal.searchAttributes' must be true, false or 'registered'`;
  if (workflow !== undefined) {
    if (!isObject(workflow)) return `'temporal.workflow' must be an object`;
    const problem = fieldProblem('temporal.workflow', workflow, LIMITS);
    if (problem !== undefined) return problem;
  }
  return fieldProblem('temporal', rest, FIELDS, ['tls', 'searchAttributes', 'workflow']);
}

function fieldProblem(
  where: string,
  value: Record<string, unknown>,
  kinds: Readonly<Record<string, Kind>>,
  more: readonly string[] = [],
): string | undefined {
  for (const [key, entry] of Object.entries(value)) {
    if (entry === undefined) continue;
    const kind = Object.hasOwn(kinds, key) ? kinds[key] : undefined;
    const name = `'${where}.${key}'`;
    if (kind === undefined)
      return `there is no setting ${name}; known are ${[...Object.keys(kinds), ...more].join(', ')}`;
    if (kind === 'text' && (typeof entry !== 'string' || entry === '')) return `${name} must be a text`;
    if (kind === 'switch' && typeof entry !== 'boolean') return `${name} must be true or false`;
    if (kind === 'number' && !(typeof entry === 'number' && Number.isFinite(entry) && entry > 0))
      return `${name} must be a number above 0`;
    if (kind === 'texts' && !(Array.isArray(entry) && entry.every((item) => typeof item === 'string' && item !== '')))
      return `${name} must be a list of texts`;
  }
  return undefined;
}

/** The names that Temporal's own tools read. */
export function temporalOfEnvironment(read: (name: string) => string | undefined): TemporalOptions {
  const address = read('TEMPORAL_ADDRESS');
  const namespace = read('TEMPORAL_NAMESPACE');
  const apiKey = read('TEMPORAL_API_KEY');
  const taskQueue = read('RUNLEDGER_TEMPORAL_TASK_QUEUE');
  const [caFile, certFile] = [read('TEMPORAL_TLS_CA'), read('TEMPORAL_TLS_CERT')];
  const [keyFile, serverName] = [read('TEMPORAL_TLS_KEY'), read('TEMPORAL_TLS_SERVER_NAME')];
  const tls = {
    ...(caFile === undefined ? {} : { caFile }),
    ...(certFile === undefined ? {} : { certFile }),
    ...(keyFile === undefined ? {} : { keyFile }),
    ...(serverName === undefined ? {} : { serverName }),
  };
  const isOn = read('TEMPORAL_TLS') === 'true';
  return {
    ...(address === undefined ? {} : { address }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(taskQueue === undefined ? {} : { taskQueue }),
    ...(Object.keys(tls).length > 0 ? { tls } : isOn ? { tls: true } : {}),
  };
}

/** The same options, with the files of `tls` as absolute paths. */
export function filesOf(options: TemporalOptions, toPath: (path: string) => string): TemporalOptions {
  const { tls } = options;
  if (typeof tls !== 'object') return options;
  const { caFile, certFile, keyFile } = tls;
  return {
    ...options,
    tls: {
      ...tls,
      ...(caFile === undefined ? {} : { caFile: toPath(caFile) }),
      ...(certFile === undefined ? {} : { certFile: toPath(certFile) }),
      ...(keyFile === undefined ? {} : { keyFile: toPath(keyFile) }),
    },
  };
}
