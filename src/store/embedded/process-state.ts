import { readFile } from 'node:fs/promises';
import { runCommand } from './run-command.ts';

export type ProcessState = 'gone' | 'postgres' | 'other';

/**
 * What runs under a pid. A zombie counts as gone: in a container whose first process reaps nobody, an ended server stays
 * one for ever, and Postgres itself would take it for a running server.
 */
export async function processState(pid: number): Promise<ProcessState> {
  if (process.platform === 'linux') {
    const line = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined);
    if (line === undefined) return 'gone';
    // "pid (name) state ...": the name may itself hold spaces and parentheses.
    const end = line.lastIndexOf(')');
    return classify(line.slice(end + 2, end + 3), line.slice(line.indexOf('(') + 1, end));
  }
  const listed = await runCommand('/bin/ps', ['-o', 'state=,comm=', '-p', String(pid)]);
  const [state = '', ...name] = listed.output.trim().split(/\s+/);
  return listed.code === 0 ? classify(state.slice(0, 1), name.join(' ')) : 'gone';
}

function classify(state: string, name: string): ProcessState {
  if (state === 'Z' || state === 'X' || state === '') return 'gone';
  return /(^|\/)postgres(:|$)/.test(name) ? 'postgres' : 'other';
}
