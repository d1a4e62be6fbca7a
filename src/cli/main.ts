#!/usr/bin/env node
import nodeModule from 'node:module';
import { type Arguments, commandName, parseCommand } from './parse-command.ts';
import { reportError } from './report-error.ts';
import { Session } from './session.ts';
import { Terminal } from './terminal.ts';

// Node 22 keeps compiled code between calls; Node 20 cannot.
(nodeModule as { enableCompileCache?: () => unknown }).enableCompileCache?.();

/** Commands that work on a run: it goes on to its end, and its exit code is told, though nobody reads any more. */
const WORKING = ['run', 'resume', 'retry', 'worker'];
let session: Session | undefined;

/** A reader that has seen enough closes the pipe; that is no failure. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  if (WORKING.includes(process.argv[2] ?? '')) return;
  const leave = (): never => process.exit(0);
  // A process that leaves without a word would leave the embedded server behind.
  if (session) void session.close(0).then(leave, leave);
  else leave();
});

process.exitCode = await main(process.argv.slice(2));

async function main(words: string[]): Promise<number> {
  let terminal = new Terminal({ json: words.includes('--json'), verbose: words.includes('--verbose') });
  let args: Arguments | undefined;
  try {
    const asked = words[0] === '--version' || words[0] === '-V' ? ['version', ...words.slice(1)] : words;
    const command = parseCommand(asked[0] === 'help' ? [...asked.slice(1), '--help'] : asked);
    if (!command || command.args.has('help')) {
      const { commandHelp, generalHelp } = await import('./help.ts');
      terminal.write(
        command ? commandHelp(command.name, command.row, terminal.columns) : generalHelp(terminal.columns),
      );
      // Nothing was asked for: whoever called by mistake from a script should notice.
      return command || words.length > 0 ? 0 : 64;
    }
    const { row } = command;
    args = command.args;
    terminal = new Terminal({ json: args.has('json'), verbose: args.has('verbose') });
    session = new Session(args, terminal);
    const perform = await row.load();
    const exit = await perform({ args, terminal, session });
    await session.close();
    return exit;
  } catch (error) {
    await session?.close().catch(() => {});
    return reportError(error, terminal, { command: commandName(words), args });
  }
}
