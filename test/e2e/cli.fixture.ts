import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { sha256Hex } from '../../src/lib/hash.ts';

export const ROOT = resolve(import.meta.dirname, '../..');
const CACHE = join(ROOT, 'node_modules', '.cache', 'runledger-cli');

let built: string | undefined;

/** The command line, compiled from the sources as they are. Built once per state of the sources, whoever asks. */
export function builtCli(): string {
  // Looked up once: sources that change while the tests run must not change what they test.
  built ??= build();
  return built;
}

function build(): string {
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).sort();
  const stamps = files.map((file) => `${file}:${statSync(join(ROOT, 'src', file)).mtimeMs}`);
  const home = join(CACHE, sha256Hex(stamps.join('\n')).slice(0, 16));
  const main = join(home, 'dist', 'cli', 'main.js');
  if (existsSync(main)) return main;
  const own = join(CACHE, `building-${crypto.randomUUID()}`);
  mkdirSync(own, { recursive: true });
  const script = join(ROOT, 'scripts', 'build.mjs');
  // Types are proven elsewhere; here only behaviour counts.
  execFileSync(process.execPath, [script, join(own, 'dist'), '--no-types'], { stdio: 'inherit' });
  cpSync(join(ROOT, 'package.json'), join(own, 'package.json'));
  for (const old of readdirSync(CACHE)) {
    // Others build at the same time, and rename what they have built.
    const made = statSync(join(CACHE, old), { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
    if (Date.now() - made > 3_600_000) rmSync(join(CACHE, old), { recursive: true, force: true });
  }
  try {
    renameSync(own, home);
  } catch {
    // Somebody else was faster.
    rmSync(own, { recursive: true, force: true });
  }
  return main;
}

export interface CliOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** Words before the command: something that runs it in its own way. */
  readonly prefix?: readonly string[];
  /** The account that runs it. */
  readonly uid?: number;
  readonly gid?: number;
  /** Called with all of stdout and stderr so far, whenever there is more. */
  readonly watch?: (stdout: string, signal: (name: NodeJS.Signals) => void, stderr: string) => void;
}

export interface CliEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line in a process of its own, in a pipe. */
export function runCli(args: readonly string[], options: CliOptions = {}): Promise<CliEnd> {
  const { PATH = '', HOME = '', TMPDIR } = process.env;
  const env = { PATH, HOME, LANG: 'C.UTF-8', ...(TMPDIR ? { TMPDIR } : {}), ...options.env };
  const [file, ...words] = [...(options.prefix ?? []), process.execPath, builtCli(), ...args];
  const { cwd = ROOT, uid, gid } = options;
  const account = { ...(uid === undefined ? {} : { uid }), ...(gid === undefined ? {} : { gid }) };
  const child = spawn(file!, words, { cwd, env, ...account });
  let stdout = '';
  let stderr = '';
  const tell = (): void => options.watch?.(stdout, (name) => child.kill(name), stderr);
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    tell();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    tell();
  });
  child.stdin.on('error', () => {}).end(options.input ?? '');
  return new Promise((done, failed) => {
    child.on('error', failed);
    child.on('close', (code) => done({ code, stdout, stderr }));
  });
}
