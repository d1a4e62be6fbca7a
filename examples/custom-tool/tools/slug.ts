import { defineTool, Type, toolFailure } from 'runledger';

/** Makes the part of an address that a title is shown under: `Hello, World!` becomes `hello-world`. */
export const slug = defineTool({
  kind: 'slug',
  // The fields of the task. What a playbook writes is checked against them, by `compile` and before the call.
  input: Type.Object({
    title: Type.String({ minLength: 1 }),
    max_length: Type.Optional(Type.Integer({ minimum: 1 })),
  }),
  // It changes nothing, so it may be repeated, and the next step need not wait for the log.
  effect: 'compute',
  run({ title, max_length = 60 }, { log }) {
    const words = title
      .normalize('NFKD')
      .replace(/\p{M}/gu, '')
      .toLowerCase()
      .match(/[a-z0-9]+/g);
    // A failure with a code, which a policy or an arc of the playbook can look at.
    if (!words) throw toolFailure({ code: 'NO_WORDS', message: `'${title}' has no letter that an address can have` });
    log('log', `${words.length} words`);
    return words.join('-').slice(0, max_length);
  },
});
