import Type from 'typebox';
import { defineTool } from '../define-tool.ts';
import type { Tool } from '../tool.ts';

/** Does nothing, or gives the value that the task states. */
export function noopTool(): Tool {
  return defineTool({
    kind: 'noop',
    input: Type.Object({ result: Type.Optional(Type.Unknown()) }),
    effect: 'compute',
    run: ({ result }) => result ?? null,
  });
}
