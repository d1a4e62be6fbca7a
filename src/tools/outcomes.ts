import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { AppError } from '../contracts/errors.ts';
import type { ToolError, ToolOutcome } from './tool.ts';

/** Why a call was aborted. The signal's reason is an AppError (TASK_TIMEOUT, STEP_TIMEOUT, CANCELLED) or what AbortSignal.timeout gives. */
export function abortError(signal: AbortSignal): ToolError {
  const reason: unknown = signal.reason;
  const code = reason instanceof AppError ? reason.code : undefined;
  if (code === 'STEP_TIMEOUT') {
    return { kind: 'timeout', code, message: 'the step ran out of time during the call', retryable: false };
  }
  if (code === 'TASK_TIMEOUT' || (reason instanceof Error && reason.name === 'TimeoutError')) {
    return { kind: 'timeout', code: 'TASK_TIMEOUT', message: 'the call ran out of time', retryable: true };
  }
  return { kind: 'cancelled', code: 'CANCELLED', message: 'the call was cancelled', retryable: false };
}

/** The outcome of a call that an AppError ended before anything was sent. */
export function refusedOutcome(kind: string, error: AppError): ToolOutcome {
  return {
    status: 'error',
    error: { kind, code: error.code, message: error.message, retryable: error.retryable },
  };
}

/** A field of the task that no retry mends. */
export function inputProblem(message: string): AppError {
  return new AppError('INVALID_STEP_SCHEMA', message);
}

/** A check that throws INVALID_STEP_SCHEMA and names the fields that the tool's schema refuses; never their values. */
export function inputChecker(kind: string, schema: TSchema): (input: Record<string, unknown>) => void {
  const validator = Compile(schema) as unknown as Validator;
  return (input) => {
    if (validator.Check(input)) return;
    const problems = new Map<string, string>();
    for (const error of validator.Errors(input)) {
      const at = error.instancePath.slice(1).replaceAll('/', '.');
      if (error.keyword === 'boolean') problems.set(at, `${kind} has no field \`${at}\``);
      else if (error.keyword === 'required') {
        const { requiredProperties = [] } = error.params as { requiredProperties?: string[] };
        for (const name of requiredProperties) problems.set(name, `${kind} needs \`${at ? `${at}.` : ''}${name}\``);
      } else if (error.keyword !== 'additionalProperties' && !problems.has(at)) {
        problems.set(at, `\`${at}\` of ${kind} ${error.message}`);
      }
    }
    throw inputProblem([...problems.values()].slice(0, 5).join('; '));
  };
}
