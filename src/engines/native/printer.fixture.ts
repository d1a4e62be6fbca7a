import Type from 'typebox';
import { defineTool } from '../../tools/define-tool.ts';

/** Prints what it is given, and gives it back. */
export const printer = defineTool({
  kind: 'printer',
  input: Type.Object({ text: Type.String() }),
  effect: 'compute',
  run: async ({ text }, context) => {
    context.log('stdout', text);
    return text;
  },
});
