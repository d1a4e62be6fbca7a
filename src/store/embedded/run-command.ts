import { spawn } from 'node:child_process';

/** The account a child process runs as; absent means the account of this process. */
export interface RunAs {
  readonly uid: number;
  readonly gid: number;
  readonly name: string;
}

export interface CommandResult {
  /** null when the command was ended by a signal or could not be started at all. */
  readonly code: number | null;
  readonly output: string;
}

/**
 * The environment of every child. It is fixed on purpose: PG* variables of the caller would redirect the tools,
 * a translated message could not be recognised, and a missing LC_ALL makes the server refuse to start on macOS.
 */
export const CHILD_ENV: Readonly<Record<string, string>> = { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' };

/** Runs a command to its end and collects what it printed; a command that cannot be started is a result, not an exception. */
export function runCommand(file: string, args: readonly string[], runAs?: RunAs): Promise<CommandResult> {
  return new Promise((resolve) => {
    // The working folder of the caller may be closed to the other account, and initdb complains about that.
    const child = spawn(file, args, {
      cwd: '/',
      env: CHILD_ENV,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(runAs && { uid: runAs.uid, gid: runAs.gid }),
    });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.once('error', (error) => resolve({ code: null, output: error.message }));
    child.once('close', (code) => resolve({ code, output: Buffer.concat(chunks).toString('utf8').trim() }));
  });
}

/** Whether `runAs` can enter a folder and make files in it. Asked of the kernel, because modes alone say nothing about ACLs. */
export async function canWriteIn(folder: string, runAs: RunAs): Promise<boolean> {
  const result = await runCommand('/bin/sh', ['-c', 'cd "$1" && test -w . && test -x .', 'sh', folder], runAs);
  return result.code === 0;
}
