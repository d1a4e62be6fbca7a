import type { CompileResult } from '../compiler/compile.ts';
import { formatProblems, type Problem } from '../compiler/problems.ts';
import { AppError } from '../contracts/errors.ts';
import { compileFile } from '../runtime/playbook-files.ts';
import type { Context } from './context.ts';

export type Compiled = Extract<CompileResult, { ok: true }>;

/** Compiles the file, or throws PLAYBOOK_INVALID with every problem, its place and its line. */
export async function compiledFile(context: Context, file: string, onFile?: (file: string) => void): Promise<Compiled> {
  const { args, session, terminal } = context;
  const compiled = await compileFile(file, await session.settings(), {
    strict: args.has('strict'),
    ...(onFile ? { onFile } : {}),
  });
  if (compiled.ok) return compiled;
  const { problems } = compiled;
  const errors = problems.filter(({ severity }) => severity === 'error').length || problems.length;
  throw new AppError('PLAYBOOK_INVALID', `${file} has ${errors} problem${errors === 1 ? '' : 's'}.`, {
    problems,
    shown: formatProblems(problems, { color: terminal.errorColor }),
  });
}

export function tellWarnings(context: Context, warnings: readonly Problem[]): void {
  if (warnings.length === 0 || context.terminal.json) return;
  context.terminal.note(`${formatProblems(warnings, { color: context.terminal.errorColor })}\n`);
}
