import { existsSync, readFileSync } from 'node:fs';
import nodeModule from 'node:module';
import { delimiter, dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { AppError } from '../contracts/errors.ts';
import type { TemporalOptions } from '../engines/temporal/options.ts';
import type { AddressPolicy } from '../lib/net-guard.ts';
import type { Tool } from '../tools/tool.ts';
import { checkConfig, checkDatabaseUrl } from './check-config.ts';
import { RUN_ENGINES, type RunEngine } from './run-engines.ts';
import { filesOf, temporalOfEnvironment } from './temporal-config.ts';

/** What `runledger.config.*` may say. Every field may be left out. */
export interface RunledgerConfig {
  /** A Postgres of your own; without it the embedded one in `folder` is used. */
  readonly databaseUrl?: string;
  /** Where the embedded database and the artifacts are; `.runledger` by default. */
  readonly folder?: string;
  readonly tenant?: string;
  readonly project?: string;
  readonly environment?: string;
  /** Tools beside the built-in ones. */
  readonly tools?: readonly Tool[];
  /** A file of secrets that only its owner may open. */
  readonly secretsFile?: string;
  /** Folders in which sub-playbooks are looked for, after the folder of the playbook that names them. */
  readonly playbooks?: readonly string[];
  /** Units of work that one process runs at once. */
  readonly concurrency?: number;
  /** Where the http tool may call. */
  readonly addresses?: Partial<AddressPolicy>;
  /** Addresses below which plans may be fetched, such as `https://plans.example.com/prod/`. */
  readonly planLocations?: readonly string[];
  /** Who schedules runs: `native` by default. */
  readonly engine?: RunEngine;
  /** Where Temporal is, for runs that are placed on it. */
  readonly temporal?: TemporalOptions;
}

/** Gives an editor the types of the configuration; returns what it is given. */
export function defineConfig(config: RunledgerConfig): RunledgerConfig {
  return config;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The configuration after file and environment were laid over the defaults. Paths are absolute. */
export interface Settings {
  readonly databaseUrl: string | undefined;
  readonly folder: string;
  readonly scope: { readonly tenantId: string; readonly projectId: string; readonly environmentId: string };
  readonly tools: readonly Tool[];
  readonly secretsFile: string | undefined;
  readonly playbooks: readonly string[];
  readonly concurrency: number | undefined;
  readonly addresses: Partial<AddressPolicy> | undefined;
  readonly planLocations: readonly string[];
  readonly engine: RunEngine;
  readonly temporal: TemporalOptions;
  /** The file that was read, if there was one. */
  readonly configFile: string | undefined;
  /** For tools and secrets, which are handed what they need of it. */
  readonly env: Environment;
}

export interface SettingsRequest {
  readonly cwd?: string;
  /** What a program says; wins over everything else. */
  readonly given?: RunledgerConfig;
  /** Given on the command line; wins over file and environment. False: no file is looked for. */
  readonly configFile?: string | false | undefined;
  readonly folder?: string | undefined;
  readonly env?: Environment;
}

const FILES = ['ts', 'mts', 'js', 'mjs', 'json'].map((extension) => `runledger.config.${extension}`);

/** Reads the configuration: this module is the only one that looks at the environment. */
export async function loadSettings(request: SettingsRequest = {}): Promise<Settings> {
  const { cwd = process.cwd(), env = process.env } = request;
  const given = checkConfig(request.given ?? {}, 'createRuntime');
  const found = findConfig(request.configFile ?? text(env, 'RUNLEDGER_CONFIG'), cwd);
  const config = found === undefined ? {} : checkConfig(await readConfig(found), found);
  // What a file says is meant from where the file is.
  const fromFile = (path: string): string => resolve(found === undefined ? cwd : dirname(found), path);
  const ownFolder = request.folder ?? given.folder ?? text(env, 'RUNLEDGER_FOLDER');
  const ownSecrets = given.secretsFile ?? text(env, 'RUNLEDGER_SECRETS_FILE');
  const environmentUrl = text(env, 'DATABASE_URL');
  if (environmentUrl !== undefined) checkDatabaseUrl('DATABASE_URL', environmentUrl);
  return {
    databaseUrl: given.databaseUrl ?? environmentUrl ?? config.databaseUrl,
    folder: ownFolder === undefined ? fromFile(config.folder ?? '.runledger') : resolve(cwd, ownFolder),
    scope: {
      tenantId: given.tenant ?? text(env, 'RUNLEDGER_TENANT') ?? config.tenant ?? 'local',
      projectId: given.project ?? text(env, 'RUNLEDGER_PROJECT') ?? config.project ?? 'default',
      environmentId: given.environment ?? text(env, 'RUNLEDGER_ENVIRONMENT') ?? config.environment ?? 'dev',
    },
    tools: given.tools ?? config.tools ?? [],
    secretsFile:
      ownSecrets === undefined ? config.secretsFile && fromFile(config.secretsFile) : resolve(cwd, ownSecrets),
    playbooks: given.playbooks?.map((path) => resolve(cwd, path)) ?? (config.playbooks ?? []).map(fromFile),
    concurrency: given.concurrency ?? config.concurrency,
    addresses: given.addresses ?? config.addresses,
    planLocations: given.planLocations ?? config.planLocations ?? [],
    engine: given.engine ?? engineOf(text(env, 'RUNLEDGER_ENGINE')) ?? config.engine ?? 'native',
    temporal: {
      ...filesOf(config.temporal ?? {}, fromFile),
      ...temporalOfEnvironment((name) => text(env, name)),
      ...filesOf(given.temporal ?? {}, (path) => resolve(cwd, path)),
    },
    configFile: found,
    env,
  };
}

function engineOf(name: string | undefined): RunEngine | undefined {
  if (name === undefined || (RUN_ENGINES as readonly string[]).includes(name)) return name as RunEngine | undefined;
  throw new AppError('CONFIG_INVALID', `RUNLEDGER_ENGINE must be one of ${RUN_ENGINES.join(', ')}, not '${name}'.`);
}

function findConfig(named: string | false | undefined, cwd: string): string | undefined {
  if (named === false) return undefined;
  return named === undefined ? FILES.map((name) => join(cwd, name)).find(existsSync) : resolve(cwd, named);
}

/** The configuration in the folder of a file: it is read only where the command is called, and somebody may expect otherwise. */
export function configBeside(file: string): string | undefined {
  return FILES.map((name) => join(dirname(file), name)).find(existsSync);
}

/** What the environment says about the terminal, in the words of those who print. */
export interface TerminalHints {
  readonly color: boolean;
  /** Whether the cursor can be moved. */
  readonly live: boolean;
  readonly unicode: boolean;
}

export function terminalHints(isTerminal: boolean, env: Environment = process.env): TerminalHints {
  const dumb = env['TERM'] === 'dumb';
  const forced = text(env, 'FORCE_COLOR');
  // By convention any value that is not empty switches colours off.
  const color = text(env, 'NO_COLOR') === undefined && (forced === undefined ? isTerminal && !dumb : forced !== '0');
  const locale = text(env, 'LC_ALL') ?? text(env, 'LC_CTYPE') ?? text(env, 'LANG');
  const unicode =
    process.platform === 'win32'
      ? text(env, 'WT_SESSION') !== undefined
      : !dumb && (process.platform === 'darwin' || /utf-?8/i.test(locale ?? ''));
  return { color, live: isTerminal && !dumb && text(env, 'CI') === undefined, unicode };
}

/**
 * Whether a shell finds the command. The folders that npx puts before the others do not count: they are gone when it ends.
 */
export function isOnPath(command: string, env: Environment = process.env): boolean {
  const folders = (env['PATH'] ?? env['Path'] ?? '').split(delimiter);
  const names = process.platform === 'win32' ? [`${command}.cmd`, `${command}.exe`] : [command];
  return folders
    .filter((folder) => folder !== '' && !/node_modules[/\\]\.bin[/\\]?$/.test(folder))
    .some((folder) => names.some((name) => existsSync(join(folder, name))));
}

function text(env: Environment, name: string): string | undefined {
  const value = env[name];
  return value === undefined || value === '' ? undefined : value;
}

async function readConfig(file: string): Promise<unknown> {
  if (!existsSync(file)) throw new AppError('CONFIG_INVALID', `There is no configuration file ${file}.`);
  try {
    if (file.endsWith('.json')) return JSON.parse(readFileSync(file, 'utf8'));
    return await importConfig(file);
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError('CONFIG_INVALID', `${file} cannot be read: ${(error as Error).message}`, {}, { cause: error });
  }
}

const HOOK = new URL('./typescript-hook.mjs', import.meta.url);
const MARK = '?runledger-config';
let hooked: Promise<void> | undefined;

/** JavaScript or TypeScript, of whatever `type` the project is, and without anything that the project has installed. */
async function importConfig(file: string): Promise<unknown> {
  hooked ??= installHook();
  await hooked;
  return ((await import(`${pathToFileURL(file).href}${MARK}`)) as { default?: unknown }).default;
}

async function installHook(): Promise<void> {
  // From Node 22.15 on hooks can live in this thread; before, in one of their own.
  const { registerHooks } = nodeModule as { registerHooks?: (hooks: object) => unknown };
  if (registerHooks) registerHooks((await import(HOOK.href)) as object);
  else nodeModule.register(HOOK);
}
