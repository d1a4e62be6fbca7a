#!/usr/bin/env node
import nodeModule from 'node:module';
import { type Arguments, commandName, parseCommand } from './parse-command.ts';
import { reportError } from './report-error.ts';
import { Session } from './session.ts';
import { Terminal } from './terminal.ts';

// Node 22 keeps compiled code between calls; Node 20 cannot.
(nodeModule as { enableCompileCache?: () => unknown }).enableCompileCache?.();

/** A reader that has seen enough closes the pipe; that is no failure. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

process.exitCode = await main(process.argv.slice(2));

async function main(words: string[]): Promise<number> {
  let terminal = new Terminal({ json: words.includes('--json'), verbose: words.includes('--verbose') });
  let session: Session | undefined;
  let args: Arguments | undefined;
  try {
    const asked = words[0] === '--version' || words[0] === '-V' ? ['version', ...words.slice(1)] : words;
    const command = parseCommand(asked[0] === 'help' ? [...asked.slice(1), '--help'] : asked);
    if (!command || command.args.has('help')) {
      const { commandHelp, generalHelp } = await import('./help.ts');
      terminal.write(command ? commandHelp(command.name, command.row, terminal.columns) : generalHelp());
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
