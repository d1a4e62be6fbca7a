import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { parse } from 'yaml';
import { type CompileResult, compile, type PlaybookSource } from '../compiler/compile.ts';
import { TaskForm } from '../compiler/playbook-schema.ts';
import { AppError } from '../contracts/errors.ts';
import { closestName } from '../lib/closest-name.ts';
import type { Tool } from '../tools/tool.ts';
import type { Settings } from './config.ts';

const MAX_BYTES = 8 * 1024 * 1024;
const STDIN = '-';

export interface CompileFileOptions {
  readonly strict?: boolean;
  /** Told which sub-playbooks were read. */
  readonly onFile?: (file: string) => void;
}

/** Compiles a playbook file and the files that it names. */
export async function compileFile(
  file: string,
  settings: Settings,
  options: CompileFileOptions = {},
): Promise<CompileResult> {
  return compileText({ text: readText(file), file: file === STDIN ? '<stdin>' : shown(file) }, settings, options);
}

/** Compiles a playbook from its text; what it names is looked for from where `file` says that it stands. */
export async function compileText(
  source: PlaybookSource,
  settings: Settings,
  options: CompileFileOptions = {},
): Promise<CompileResult> {
  return compile(source, {
    tools: Object.fromEntries(settings.tools.map((tool) => [tool.kind, { fields: fieldsOf(tool) }])),
    strict: options.strict ?? false,
    resolve: (path, from) => {
      const found = findPlaybook(path, [dirname(resolve(from)), process.cwd(), ...settings.playbooks]);
      if (found) options.onFile?.(found.file);
      return found;
    },
  });
}

/** The fields of a user's tool. One that the language has for itself would never reach it. */
function fieldsOf({ kind, input }: Tool): string[] {
  const { properties } = input as { properties?: Record<string, unknown> };
  const fields = Object.keys(properties ?? {});
  const taken = fields.find((field) => Object.hasOwn(TaskForm.properties, field));
  if (taken === undefined) return fields;
  throw new AppError(
    'CONFIG_INVALID',
    `the tool '${kind}' has a field '${taken}', which every task has for itself; give the field another name.`,
    { kind, field: taken },
  );
}

/** A sub-playbook by its path, with or without its ending, in the first of the folders that has it. */
function findPlaybook(path: string, folders: readonly string[]): PlaybookSource | undefined {
  for (const folder of folders) {
    for (const ending of ['', '.yaml', '.yml']) {
      const file = resolve(folder, `${path}${ending}`);
      if (isFile(file)) return { text: readText(file), file: shown(file) };
    }
  }
  return undefined;
}

/** Values for a run from a JSON or YAML file. */
export function readInput(file: string): Record<string, unknown> {
  const text = readText(file);
  let value: unknown;
  try {
    value = file.endsWith('.json') ? JSON.parse(text) : parse(text, { maxAliasCount: 1000 });
  } catch (error) {
    const [message] = (error as Error).message.split('\n');
    throw new AppError('USAGE', `${file} cannot be read: ${message}`, { file });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new AppError('USAGE', `${file} must hold a mapping of names to values.`, { file });
  return value as Record<string, unknown>;
}

export function readText(file: string): string {
  try {
    if (file !== STDIN && statSync(file).size > MAX_BYTES)
      throw new AppError('USAGE', `${file} is larger than ${MAX_BYTES} bytes.`, { file });
    return readFileSync(file === STDIN ? 0 : file, 'utf8');
  } catch (error) {
    if (error instanceof AppError) throw error;
    const why = whyNot(error as NodeJS.ErrnoException);
    throw new AppError('FILE_NOT_READABLE', `${file} ${why}${nearFile(file, error as NodeJS.ErrnoException)}`, {
      file,
    });
  }
}

/** A name that is there and was perhaps meant: `.yml` for `.yaml`, a letter too many. */
function nearFile(file: string, { code }: NodeJS.ErrnoException): string {
  if (code !== 'ENOENT') return '.';
  try {
    const near = closestName(basename(file), readdirSync(dirname(file)));
    return near === undefined ? '.' : `; did you mean '${join(dirname(file), near)}'?`;
  } catch {
    return '.';
  }
}

function whyNot({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'does not exist';
  if (code === 'EISDIR') return 'is a folder';
  if (code === 'EACCES' || code === 'EPERM') return 'may not be read';
  return `cannot be read: ${message}`;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** As people write it: from here, unless that would lead upwards. */
function shown(file: string): string {
  const short = relative(process.cwd(), resolve(file));
  return short === '' || short.startsWith('..') || isAbsolute(short) ? resolve(file) : short;
}
