import Type from 'typebox';
import { pickField, type SecretReference } from '../../lib/secrets.ts';
import { defineTool } from '../define-tool.ts';
import type { Tool } from '../tool.ts';

/**
 * Makes sure that a secret can be resolved, and gives a reference to it. The value is never a result: results are recorded, and
 * what later templates see is what was recorded. A tool whose field holds the reference gets the value.
 */
export function secretsTool(): Tool {
  return defineTool({
    kind: 'secrets',
    input: Type.Object({
      /** The name in the secrets provider. */
      auth: Type.String({ minLength: 1 }),
      /** One field of a secret that has several. */
      field: Type.Optional(Type.String({ minLength: 1 })),
    }),
    effect: 'read',
    describe: ({ auth }) => ({ operation: 'resolve', target: auth }),
    async run({ auth, field }, context) {
      const reference: SecretReference = { _secret: { name: auth, ...(field === undefined ? {} : { field }) } };
      pickField(reference, await context.secret(auth));
      return reference;
    },
  });
}
