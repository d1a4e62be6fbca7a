import { AppError } from '../contracts/errors.ts';
import { didYouMean } from '../lib/closest-name.ts';
import type { AddressClass } from '../lib/ip-address.ts';
import type { RunledgerConfig } from './config.ts';
import { RUN_ENGINES } from './run-engines.ts';
import { temporalProblem } from './temporal-config.ts';

/** What is wrong with a value, in words that follow its name; undefined when nothing is. */
type Check = (value: unknown) => string | undefined;

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const text: Check = (value) => (isText(value) ? undefined : 'must be a text');
const texts: Check = (value) => (Array.isArray(value) && value.every(isText) ? undefined : 'must be a list of texts');

const CLASSES: Readonly<Record<AddressClass, true>> = {
  public: true,
  loopback: true,
  private: true,
  'link-local': true,
  metadata: true,
  reserved: true,
};
const ADDRESSES: Readonly<Record<string, Check>> = {
  schemes: texts,
  refuse: (value) =>
    Array.isArray(value) && value.every((name) => Object.hasOwn(CLASSES, String(name)))
      ? undefined
      : `must be a list of ${Object.keys(CLASSES).join(', ')}`,
  allow: texts,
  deny: texts,
};

const SETTINGS: Readonly<Record<keyof RunledgerConfig, Check>> = {
  databaseUrl: (value) => text(value) ?? urlProblem(value as string),
  folder: text,
  tenant: text,
  project: text,
  environment: text,
  secretsFile: text,
  tools: toolsProblem,
  playbooks: texts,
  planLocations: texts,
  concurrency: (value) =>
    Number.isInteger(value) && (value as number) >= 1 ? undefined : 'must be a whole number from 1 on',
  addresses: addressesProblem,
  engine: (value) =>
    (RUN_ENGINES as readonly unknown[]).includes(value) ? undefined : `must be one of ${RUN_ENGINES.join(', ')}`,
  // It names its fields itself.
  temporal: () => undefined,
};

/** The configuration, if nothing is wrong with it: a setting that is not known is not passed over, lest it be believed in. */
export function checkConfig(value: unknown, source: string): RunledgerConfig {
  const wrong = (message: string): AppError => new AppError('CONFIG_INVALID', `${source}: ${message}`);
  if (!isObject(value)) throw wrong('the default export must be an object');
  for (const [key, entry] of Object.entries(value)) {
    if (entry === undefined) continue;
    if (!Object.hasOwn(SETTINGS, key)) throw wrong(unknownSetting(key, key, Object.keys(SETTINGS)));
    const problem = SETTINGS[key as keyof RunledgerConfig](entry);
    if (problem !== undefined) throw wrong(`'${key}' ${problem}`);
    const inner = key === 'temporal' ? temporalProblem(entry) : undefined;
    if (inner !== undefined) throw wrong(inner);
  }
  return value as RunledgerConfig;
}

const unknownSetting = (name: string, key: string, known: readonly string[]): string =>
  `there is no setting '${name}'${didYouMean(key, known) || `; known are ${known.join(', ')}`}`;

/** The address is not shown: it may hold a password. */
export function checkDatabaseUrl(name: string, url: string): void {
  const problem = urlProblem(url);
  if (problem !== undefined) throw new AppError('CONFIG_INVALID', `${name} ${problem}.`);
}

function urlProblem(url: string): string | undefined {
  if (/^(postgres(ql)?|socket):\/\//.test(url) || url.startsWith('/')) return undefined;
  return 'must be the address of a Postgres, such as postgres://user@localhost:5432/runs';
}

function toolsProblem(value: unknown): string | undefined {
  if (!Array.isArray(value)) return 'must be a list';
  const at = value.findIndex(
    (tool) =>
      !isObject(tool) || !isText(tool['kind']) || !isObject(tool['input']) || typeof tool['call'] !== 'function',
  );
  if (at === -1) return undefined;
  const { kind } = (value[at] ?? {}) as { kind?: unknown };
  return `holds something that is no tool, at place ${at + 1}${isText(kind) ? ` ('${kind}')` : ''}; make it with defineTool`;
}

function addressesProblem(value: unknown): string | undefined {
  if (!isObject(value)) return 'must be an object';
  for (const [key, entry] of Object.entries(value)) {
    if (!Object.hasOwn(ADDRESSES, key))
      return `has an unknown field: ${unknownSetting(`addresses.${key}`, key, Object.keys(ADDRESSES))}`;
    const problem = entry === undefined ? undefined : ADDRESSES[key]!(entry);
    if (problem !== undefined) return `cannot be used: 'addresses.${key}' ${problem}`;
  }
  return undefined;
}
