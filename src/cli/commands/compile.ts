import { compiledFile, tellWarnings } from '../compiled-file.ts';
import type { Command } from '../context.ts';

export const compile: Command = async (context) => {
  const { args, terminal } = context;
  const graph = args.choice('graph', ['mermaid', 'dot']);
  const compiled = await compiledFile(context, args.positionals[0]!);
  const { plan, planRef, sha256, warnings } = compiled;
  tellWarnings(context, warnings);
  if (graph !== undefined) {
    const { toDot, toMermaid } = await import('../../compiler/draw-graph.ts');
    terminal.write(graph === 'dot' ? toDot(plan) : toMermaid(plan));
  } else if (terminal.json) {
    const children = [...compiled.children.values()].map((child) => child.planRef);
    terminal.printJson({ planRef, plan, children, warnings });
  } else if (args.has('explain')) {
    const { explain } = await import('../../compiler/explain.ts');
    terminal.write(explain(plan));
  } else {
    const steps = `${plan.steps.length} step${plan.steps.length === 1 ? '' : 's'}`;
    terminal.print(`${planRef.planId} ${planRef.planVersion}: ${steps}, ${Buffer.byteLength(compiled.json)} bytes`);
    terminal.print(`sha256 ${sha256}`);
  }
  return 0;
};
