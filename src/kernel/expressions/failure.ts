import { AppError, type ErrorCode } from '../../contracts/errors.ts';

export type TemplateCode = Extract<ErrorCode, `TEMPLATE_${string}`>;

/** A place in a template's text. `line` and `column` start at 1. */
interface Place {
  readonly offset: number;
  readonly line: number;
  readonly column: number;
}

function placeAt(source: string, offset: number): Place {
  const at = Math.max(0, Math.min(offset, source.length));
  let line = 1;
  let lineStart = 0;
  for (let i = source.indexOf('\n'); i !== -1 && i < at; i = source.indexOf('\n', i + 1)) {
    line++;
    lineStart = i + 1;
  }
  return { offset: at, line, column: at - lineStart + 1 };
}

/**
 * What goes wrong while a template is compiled or evaluated, before its place is known in lines and columns: the code
 * that finds the mistake has no access to the text. Never leaves this folder; see `asAppError`.
 */
export class Failure extends Error {
  override readonly name = 'Failure';
  readonly code: TemplateCode;
  /** Where, if whoever threw it knows better than the evaluation's current place. */
  readonly offset: number | undefined;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: TemplateCode, message: string, offset?: number, details: Record<string, unknown> = {}) {
    super(message);
    this.code = code;
    this.offset = offset;
    this.details = details;
  }
}

export function syntaxError(message: string, offset?: number, details?: Record<string, unknown>): Failure {
  return new Failure('TEMPLATE_SYNTAX', message, offset, details);
}

export function typeError(message: string, offset?: number): Failure {
  return new Failure('TEMPLATE_TYPE', message, offset);
}

export function limitError(message: string, offset?: number): Failure {
  return new Failure('TEMPLATE_LIMIT', message, offset);
}

export function forbidden(message: string, offset?: number): Failure {
  return new Failure('TEMPLATE_FORBIDDEN', message, offset);
}

export function undefinedError(message: string, offset?: number, details?: Record<string, unknown>): Failure {
  return new Failure('TEMPLATE_UNDEFINED', message, offset, details);
}

/** The same error, told of the template at this place of a plan: the text alone is found in many places. */
export function placedAt(thrown: unknown, pointer: string): unknown {
  if (!(thrown instanceof AppError)) return thrown;
  const message = thrown.message.replace(/ of the template\)$/, ` of ${pointer})`);
  return new AppError(thrown.code, message, { ...thrown.details, pointer }, { cause: thrown });
}

/** Turns whatever was thrown into the error that callers see; anything unexpected passes through untouched. */
export function asAppError(thrown: unknown, source: string, offset: number): unknown {
  if (thrown instanceof Failure) {
    const place = placeAt(source, thrown.offset ?? offset);
    const message = `${thrown.message} (line ${place.line}, column ${place.column} of the template)`;
    return new AppError(thrown.code, message, { ...thrown.details, ...place });
  }
  if (thrown instanceof RangeError) {
    // The stack is exhausted (or a string too long for the host): the depth guards should come first.
    const place = placeAt(source, offset);
    const message = `the template or its values are nested too deeply (line ${place.line}, column ${place.column} of the template)`;
    return new AppError('TEMPLATE_LIMIT', message, { ...place });
  }
  return thrown;
}
