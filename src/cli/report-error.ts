import { AppError, ERRORS, type ErrorCode } from '../contracts/errors.ts';
import type { Terminal } from './terminal.ts';

/** Says on stderr what went wrong, and gives the exit code. Never a stack trace, unless --verbose asks about a defect. */
export function reportError(error: unknown, terminal: Terminal): number {
  const { code, message, details, stack } = describe(error);
  const { cure, exit } = ERRORS[code];
  if (terminal.json) {
    const { problems } = details;
    const body = { code, message, next: cure, ...(problems === undefined ? {} : { problems }) };
    terminal.note(JSON.stringify({ error: body }, null, 2));
    return exit;
  }
  const shown = typeof details['shown'] === 'string' ? `${details['shown']}\n\n` : '';
  terminal.note(`${shown}${terminal.paintError('red', `error ${code}`)}: ${message}`);
  terminal.note(`next: ${cure}`);
  if (terminal.verbose && code === 'INTERNAL' && stack) terminal.note(stack);
  return exit;
}

function describe(error: unknown): {
  code: ErrorCode;
  message: string;
  details: Record<string, unknown>;
  stack?: string;
} {
  if (error instanceof AppError) return { code: error.code, message: error.message, details: { ...error.details } };
  const { message, code, stack } = error as NodeJS.ErrnoException;
  const details = {};
  // What the machine refuses is nobody's defect.
  if (code === 'ENOSPC' || code === 'EDQUOT') return { code: 'DISK_FULL', message, details };
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return { code: 'FILE_NOT_READABLE', message, details };
  return { code: 'INTERNAL', message: message ?? String(error), details, ...(stack ? { stack } : {}) };
}
