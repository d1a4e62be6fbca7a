import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { builtCli, ROOT } from './cli.fixture.ts';

export interface ShellEnd {
  readonly code: number | null;
  /** What was printed, both streams in the order in which it came. */
  readonly output: string;
  readonly stdout: string;
}

export interface Shell {
  readonly env: Readonly<Record<string, string>>;
  run(command: string, options?: { readonly cwd?: string; readonly env?: Record<string, string> }): Promise<ShellEnd>;
}

/** A shell in which `runledger` and `npx runledger` are the command line as it is built from the sources, and `npx vitest` is ours. */
export function shellWithCli(folder: string, more: Readonly<Record<string, string>> = {}): Shell {
  const bin = join(folder, '.bin');
  mkdirSync(bin, { recursive: true });
  const node = `exec "${process.execPath}" "${builtCli()}" "$@"`;
  const scripts = {
    runledger: `#!/bin/sh\n${node}\n`,
    npx: `#!/bin/sh
tool="$1"; shift
[ "$tool" = vitest ] && exec "${process.execPath}" "${join(ROOT, 'node_modules/vitest/vitest.mjs')}" "$@"
[ "$tool" = runledger ] || { echo "npx $tool is not here" >&2; exit 127; }
${node}
`,
  };
  for (const [name, text] of Object.entries(scripts)) {
    writeFileSync(join(bin, name), text);
    chmodSync(join(bin, name), 0o755);
  }
  const { PATH = '', HOME = '', TMPDIR } = process.env;
  const env = {
    PATH: [bin, join(process.execPath, '..'), PATH].join(delimiter),
    HOME,
    LANG: 'C.UTF-8',
    ...(TMPDIR ? { TMPDIR } : {}),
    ...more,
  };
  return {
    env,
    run: (command, options = {}) =>
      new Promise((done, failed) => {
        const child = spawn('bash', ['-c', command], {
          cwd: options.cwd ?? folder,
          env: { ...env, ...options.env },
          stdio: ['ignore', 'pipe', 'pipe'],
        });
        let output = '';
        let stdout = '';
        child.stdout.setEncoding('utf8').on('data', (text: string) => {
          output += text;
          stdout += text;
        });
        child.stderr.setEncoding('utf8').on('data', (text: string) => {
          output += text;
        });
        child.on('error', failed);
        child.on('close', (code) => done({ code, output, stdout }));
      }),
  };
}
