import { type ValidationReport, validatePlan } from '../../compiler/validate-plan.ts';
import { ERRORS } from '../../contracts/errors.ts';
import { ENGINES, type EngineName } from '../../contracts/values.ts';
import { RUN_ENGINES, type RunEngine } from '../../runtime/run-engines.ts';
import { compiledFile, tellWarnings } from '../compiled-file.ts';
import type { Command } from '../context.ts';
import type { Terminal } from '../terminal.ts';

export const compile: Command = async (context) => {
  const { args, terminal } = context;
  const graph = args.choice('graph', ['mermaid', 'dot']);
  const engine = args.choice('engine', ENGINES);
  const compiled = await compiledFile(context, args.positionals[0]!);
  const { plan, planRef, sha256, warnings } = compiled;
  tellWarnings(context, warnings);
  // A child runs on the engine of its parent.
  const plans = [compiled, ...compiled.children.values()].map((each) => each.plan);
  const reports = engine === undefined ? undefined : plans.map((each) => validatePlan(each, engine));
  const runnable = (RUN_ENGINES as readonly (string | undefined)[]).includes(engine);
  if (graph !== undefined) {
    const { toDot, toMermaid } = await import('../../compiler/draw-graph.ts');
    terminal.write(graph === 'dot' ? toDot(plan) : toMermaid(plan));
  } else if (terminal.json) {
    const children = [...compiled.children.values()].map((child) => child.planRef);
    terminal.printJson({ planRef, plan, children, warnings, ...(reports && { engine, runnable, reports }) });
  } else if (args.has('explain')) {
    const { explain } = await import('../../compiler/explain.ts');
    terminal.write(explain(plan));
  } else {
    const steps = `${plan.steps.length} step${plan.steps.length === 1 ? '' : 's'}`;
    terminal.print(`${planRef.planId} ${planRef.planVersion}: ${steps}, ${Buffer.byteLength(compiled.json)} bytes`);
    terminal.print(`sha256 ${sha256}`);
    for (const report of reports ?? []) printReport(terminal, engine!, report);
    if (engine !== undefined && !runnable) terminal.print(NOT_RUNNABLE[engine as keyof typeof NOT_RUNNABLE]);
  }
  const refused = reports?.some(({ status }) => status === 'ERRORS');
  return refused ? ERRORS.CAPABILITY_NOT_SUPPORTED.exit : 0;
};

/** Of these the report says what the plan asks for, and nothing more. */
const NOT_RUNNABLE = {
  conductor: 'This version has no adapter for conductor: whatever the report says, no run can be started there yet.',
  mock: 'mock is the simulator of `runledger/testing`: it plays a plan in a test, and no run is started there.',
} as const satisfies Record<Exclude<EngineName, RunEngine>, string>;

function printReport(terminal: Terminal, engine: string, { planId, status, errors, warnings }: ValidationReport): void {
  terminal.print(`${engine} ${status} ${planId}`);
  for (const { code, message } of [...errors, ...warnings]) terminal.print(`  ${code} ${message}`);
}
