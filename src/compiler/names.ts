import type { FormReader, Path } from './form-reader.ts';
import { shorten } from './form-reader.ts';
import { isText, type Located } from './located.ts';
import { RESERVED_WORDS } from './scopes.ts';

const SEPARATOR = /[/#@:|]/;
// Letters that cannot be seen make two names look alike.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
/** `RUN` stands for the run in idempotency keys, `signal/` begins the entities of signals. */
const STEP_WORDS: ReadonlySet<string> = new Set(['RUN', 'signal']);
const TASK_WORDS: ReadonlySet<string> = new Set(['previous']);

/** The name of a step or task, or undefined with a problem. */
export function readName(reader: FormReader, node: Located, path: Path, what: 'step' | 'task'): string | undefined {
  if (!isText(node)) return reader.wrong(node, path, 'a text; put it in quotes');
  const name = node.value;
  const complain = (message: string): undefined => {
    reader.problem('RESERVED_NAME', node, path, message);
    return undefined;
  };
  if (name.trim() === '') return complain(`a ${what} needs a name`);
  if (name !== name.trim()) return complain(`the name of a ${what} cannot begin or end with a space`);
  if (name.length > 200) return complain(`the name of a ${what} may have 200 characters`);
  const separator = SEPARATOR.exec(name);
  if (separator)
    return complain(`'${separator[0]}' is reserved in names; write '${shorten(name).replace(/[/#@:|]/g, '_')}'`);
  if (INVISIBLE.test(name))
    return complain(`the name of this ${what} holds a character that cannot be seen; remove it`);
  if (RESERVED_WORDS.has(name) || (what === 'step' ? STEP_WORDS : TASK_WORDS).has(name)) {
    return complain(
      `'${name}' has a meaning of its own; choose another name, such as '${name.replace(/^_+/, '')}_${what}'`,
    );
  }
  return name;
}
