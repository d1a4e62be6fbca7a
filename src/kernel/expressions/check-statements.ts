import { didYouMean } from '../../lib/closest-name.ts';
import { limitError, syntaxError } from './failure.ts';
import { closesGroup, opensGroup, type Token, unpackName } from './token.ts';

const MAX_STATEMENT_DEPTH = 50;
const OPENING = ['if', 'for', 'macro', 'filter', 'set'];
const KNOWN = [...OPENING, ...OPENING.map((name) => `end${name}`), 'elif', 'else', 'break', 'continue', 'raw'];

/**
 * Checks that blocks open and close in pairs. The parser would find it too, but only by running out of tokens, and could
 * neither name the block that was left open nor be kept from recursing without end.
 */
export function checkStatements(statements: readonly (readonly Token[])[]): void {
  const open: { name: string; offset: number; hasElse: boolean }[] = [];
  for (const tokens of statements) {
    const word = tokens[1]!;
    const { offset } = tokens[0]!;
    const name = unpackName(word.value).name;
    const inner = open.at(-1);
    if (word.type !== 'Identifier') throw syntaxError('a statement begins with a word, such as `if`', offset);
    if (name === 'elif' || name === 'else') {
      if (inner?.name !== 'if' && !(name === 'else' && inner?.name === 'for')) {
        throw syntaxError(`\`{% ${name} %}\` stands outside of an \`if\` or \`for\``, offset);
      }
      if (inner.hasElse) throw syntaxError(`\`{% ${name} %}\` after \`{% else %}\``, offset);
      inner.hasElse = name === 'else';
    } else if (name.startsWith('end') && OPENING.includes(name.slice(3))) {
      if (inner?.name !== name.slice(3)) {
        const expected = inner === undefined ? 'nothing is open here' : `expected \`{% end${inner.name} %}\``;
        throw syntaxError(`unexpected \`{% ${name} %}\`; ${expected}`, offset);
      }
      open.pop();
    } else if (name === 'break' || name === 'continue') {
      if (!open.some((block) => block.name === 'for')) {
        throw syntaxError(`\`{% ${name} %}\` stands outside of a loop`, offset);
      }
    } else if (!OPENING.includes(name)) {
      throw syntaxError(`unknown statement '${name}'${didYouMean(name, KNOWN)}`, offset, { name });
    } else if (name !== 'set' || !assigns(tokens)) {
      open.push({ name, offset, hasElse: false });
      if (open.length > MAX_STATEMENT_DEPTH) throw limitError('statements are nested too deeply', offset);
    }
  }
  const left = open.at(-1);
  if (left !== undefined) throw syntaxError(`\`{% ${left.name} %}\` is never closed`, left.offset);
}

/** `{% set x = 1 %}` is complete; `{% set x %}` needs an `endset`. */
function assigns(tokens: readonly Token[]): boolean {
  let depth = 0;
  for (const token of tokens) {
    if (opensGroup(token)) depth++;
    else if (closesGroup(token)) depth--;
    else if (depth === 0 && token.type === 'Equals') return true;
  }
  return false;
}
