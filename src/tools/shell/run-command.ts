import { type ChildProcess, spawn } from 'node:child_process';
import type { OrphanGuard } from '../orphan-guard.ts';
import { endGroup, signalGroup } from '../process-group.ts';
import type { OutputPipe, OutputPipes } from './output-pipes.ts';

export interface CommandRun {
  readonly command: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly killGraceMs: number;
  readonly onStdout: (chunk: Buffer) => void;
  readonly onStderr: (chunk: Buffer) => void;
}

export interface CommandEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** How long output may still arrive after the group is gone. */
const DRAIN_MS = 1000;

/** Runs one command in a group of its own and returns when nothing of that group is left. Throws what spawn throws. */
export async function runCommand(run: CommandRun, pipes: OutputPipes, guard: OrphanGuard): Promise<CommandEnd> {
  const stdout = await pipes.open();
  let stderr: OutputPipe | undefined;
  try {
    stderr = await pipes.open();
    stdout.onData(run.onStdout);
    stderr.onData(run.onStderr);
    const child = spawn('/bin/sh', ['-c', run.command], {
      cwd: run.cwd,
      env: run.env,
      detached: true,
      stdio: ['ignore', stdout.writeFd, stderr.writeFd],
    });
    stdout.handedOver();
    stderr.handedOver();
    return await untilGone(child, run, guard);
  } finally {
    await Promise.all([stdout.drained(DRAIN_MS), stderr?.drained(DRAIN_MS)]);
  }
}

async function untilGone(child: ChildProcess, run: CommandRun, guard: OrphanGuard): Promise<CommandEnd> {
  const ended = new Promise<CommandEnd>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }));
  });
  const group = child.pid;
  if (group === undefined) return ended;
  guard.watch(group);
  let ending: Promise<void> | undefined;
  const onAbort = (): void => {
    ending = endGroup(group, run.killGraceMs);
  };
  run.signal.addEventListener('abort', onAbort, { once: true });
  if (run.signal.aborted) onAbort();
  try {
    return await ended;
  } finally {
    run.signal.removeEventListener('abort', onAbort);
    // The grace of an abort is for the whole group; after a normal end, what is left in the background goes at once.
    await ending;
    signalGroup(group, 'SIGKILL');
    guard.release(group);
  }
}
