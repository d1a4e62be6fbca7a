import type { CompileResult } from '../compiler/compile.ts';
import { formatProblems, type Problem } from '../compiler/problems.ts';
import { AppError } from '../contracts/errors.ts';
import { configBeside } from '../runtime/config.ts';
import { compileFile } from '../runtime/playbook-files.ts';
import type { Context } from './context.ts';
import { shellWord } from './next-command.ts';

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
  const errors = problems.filter(({ severity }) => severity === 'error').length;
  const warnings = problems.length - errors;
  const counted = [
    ...(errors > 0 ? [`${errors} problem${errors === 1 ? '' : 's'}`] : []),
    ...(warnings > 0 ? [`${warnings} warning${warnings === 1 ? '' : 's'}`] : []),
  ].join(', ');
  const hint = problems.some(({ code }) => code === 'UNKNOWN_TOOL') ? await toolHint(context, file) : '';
  const refused = errors === 0 ? ', which --strict refuses' : '';
  throw new AppError('PLAYBOOK_INVALID', `${file === '-' ? 'standard input' : file} has ${counted}${refused}.`, {
    problems,
    shown: `${formatProblems(problems, { color: terminal.errorColor })}${hint}`,
  });
}

/** A tool that is not there is often one of a configuration that was not read. */
async function toolHint({ session }: Context, file: string): Promise<string> {
  const { configFile, tools } = await session.settings();
  if (configFile === undefined) {
    const beside = file === '-' ? undefined : configBeside(file);
    const advice = beside === undefined ? '' : ` There is one beside the playbook: --config ${shellWord(beside)}`;
    return `\n\nNo configuration was read, so only the built-in tools are known: there is no runledger.config.* in this folder, and no --config was given.${advice}`;
  }
  const own = tools.length === 0 ? 'defines no tools' : `defines ${tools.map(({ kind }) => kind).join(', ')}`;
  return `\n\nThe configuration ${configFile} ${own}.`;
}

export function tellWarnings(context: Context, warnings: readonly Problem[]): void {
  if (warnings.length === 0 || context.terminal.json) return;
  context.terminal.note(`${formatProblems(warnings, { color: context.terminal.errorColor })}\n`);
}
