import type { Arguments } from './parse-command.ts';
import type { Session } from './session.ts';
import type { Terminal } from './terminal.ts';

/** What a command gets. */
export interface Context {
  readonly args: Arguments;
  readonly terminal: Terminal;
  readonly session: Session;
}

/** Does what was asked and gives the exit code; throws an AppError where it cannot. */
export type Command = (context: Context) => Promise<number>;
