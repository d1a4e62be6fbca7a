import { AppError, ERRORS, type ErrorCode } from '../contracts/errors.ts';
import { nextCommand } from './next-command.ts';
import type { Arguments } from './parse-command.ts';
import type { Terminal } from './terminal.ts';

/** Says on stderr what went wrong, and gives the exit code. Never a stack trace, unless --verbose asks about a defect. */
export function reportError(error: unknown, terminal: Terminal, asked: Asked = {}): number {
  const { code, message, details, stack } = describe(error);
  const { exit } = ERRORS[code];
  const cure = cureOf(code, details, asked);
  if (terminal.json) {
    const { problems } = details;
    const body = { code, message, next: cure, ...(problems === undefined ? {} : { problems }) };
    terminal.note(JSON.stringify({ error: body }, null, 2));
    return exit;
  }
  const shown = typeof details['shown'] === 'string' ? `${details['shown']}\n\n` : '';
  const said = terminal.wrapNote(`error ${code}: ${message}`).slice(`error ${code}`.length);
  terminal.note(`${shown}${terminal.paintError('red', `error ${code}`)}${said}`);
  terminal.note(terminal.wrapNote(`next: ${cure}`));
  if (terminal.verbose && code === 'INTERNAL' && stack) terminal.note(stack);
  return exit;
}

/** What the words of the command line were about, as far as they could be read. */
export interface Asked {
  readonly command?: string | undefined;
  readonly args?: Arguments | undefined;
}

/** What the thrower knew better (`next`), or the cure of the table with the names of this call in the place of those that stand for any. */
function cureOf(code: ErrorCode, details: Readonly<Record<string, unknown>>, { command, args }: Asked): string {
  const { cure } = ERRORS[code];
  const { runId, next } = details;
  if (typeof next === 'string') return next;
  if (code === 'USAGE') return command === undefined ? cure : `See runledger ${command} --help.`;
  if (typeof runId !== 'string' || args === undefined) return cure;
  return cure.replace('runledger status RUN', nextCommand(args, `status ${runId.slice(0, 8)}`));
}

function describe(error: unknown): {
  code: ErrorCode;
  message: string;
  details: Record<string, unknown>;
  stack?: string;
} {
  const { message, code, stack, syscall, path, cause } = error as NodeJS.ErrnoException & { cause?: { code?: string } };
  if (isDiskFull(error)) {
    const place = path === undefined ? '' : ` of ${path}`;
    const said =
      code === 'STORE_UNAVAILABLE' ? message : `The disk${place} is full (${code}${syscall ? `, ${syscall}` : ''}).`;
    return { code: 'DISK_FULL', message: said, details: cause?.code === undefined ? {} : { cause: cause.code } };
  }
  if (error instanceof AppError) return { code: error.code, message: error.message, details: { ...error.details } };
  const details = {};
  // What the machine refuses is nobody's defect.
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    const isWrite = code === 'EROFS' || /^(mkdir|write|rename|unlink|symlink)/.test(syscall ?? '');
    return { code: isWrite ? 'FILE_NOT_WRITABLE' : 'FILE_NOT_READABLE', message, details };
  }
  return { code: 'INTERNAL', message: message ?? String(error), details, ...(stack ? { stack } : {}) };
}

/** Said by the system, or by Postgres (53100). */
export function isDiskFull(error: unknown): boolean {
  const { code, cause } = error as { code?: string; cause?: { code?: string } };
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG' || cause?.code === '53100';
}
