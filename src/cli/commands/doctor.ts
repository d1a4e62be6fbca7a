import type { Command } from '../context.ts';
import {
  alerts,
  binaries,
  configuration,
  database,
  type Finding,
  folder,
  guarded,
  node,
  python,
  secrets,
} from '../health.ts';
import { nextCommand } from '../next-command.ts';
import { work } from '../stuck-work.ts';
import { clean } from '../terminal.ts';

/** In this order: what is found later can only be seen once what comes before is well. */
const CHECKS = [node, configuration, secrets, folder, binaries, database, work, alerts, python];
/** What needs no configuration; the others would all say again that it cannot be read. */
const WITHOUT_CONFIGURATION: readonly unknown[] = [node, python];

export const doctor: Command = async (context) => {
  const { args, terminal } = context;
  const findings: Told[] = [];
  let isDatabaseWell = true;
  let isConfigured = true;
  for (const check of CHECKS) {
    if (!isDatabaseWell && (check === work || check === alerts)) continue;
    if (!isConfigured && !WITHOUT_CONFIGURATION.includes(check)) continue;
    for (const finding of await guarded(check, context)) {
      const told: Told = args.has('fix') ? await mend(finding) : finding;
      if (check === configuration) isConfigured = told.ok;
      if (check === database) isDatabaseWell = told.ok || told.fixed !== undefined;
      findings.push(told);
    }
  }
  const sick = findings.filter(({ ok, fixed }) => !ok && fixed === undefined).length;
  if (terminal.json) terminal.printJson({ ok: sick === 0, findings: findings.map(({ fix: _fix, ...rest }) => rest) });
  else for (const finding of findings) show(finding);
  return sick === 0 ? 0 : 1;

  function show({ check, ok, says, cure, fix, fixed }: Told): void {
    const { symbols } = terminal;
    const mark = ok ? terminal.paint('green', symbols.done) : terminal.paint('red', symbols.failed);
    terminal.print(`${mark} ${check}: ${clean(says, 2000)}`);
    if (fixed !== undefined) terminal.print(`  ${terminal.paint('green', 'fixed')}: ${clean(fixed, 2000)}`);
    else if (cure !== undefined)
      terminal.print(
        `  next: ${cure}${fix && !cure.includes('--fix') ? `, or ${nextCommand(context.args, 'doctor --fix')}` : ''}`,
      );
  }
};

type Told = Finding & { readonly fixed?: string };

async function mend(finding: Finding): Promise<Told> {
  if (finding.ok || !finding.fix) return finding;
  try {
    return { ...finding, fixed: await finding.fix() };
  } catch (error) {
    return { ...finding, says: `${finding.says}; it could not be mended: ${(error as Error).message}` };
  }
}
