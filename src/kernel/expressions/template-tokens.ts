import { checkStatements } from './check-statements.ts';
import { limitError } from './failure.ts';
import { lexBlock } from './lex-block.ts';
import { rewriteTests } from './rewrite-tests.ts';
import type { Part } from './scan-blocks.ts';
import { closesGroup, isKeyword, opensGroup, packName, type Token } from './token.ts';

const MAX_TOKENS = 50_000;

/** All tokens of a template in the shape that the parser expects, with places. */
export function templateTokens(source: string, parts: readonly Part[]): Token[] {
  const tokens: Token[] = [];
  const statements: Token[][] = [];
  for (const part of parts) {
    if (part.kind === 'text') {
      tokens.push({ value: part.text, type: 'Text', offset: 0 });
      continue;
    }
    const block = rewriteTests(lexBlock(source, part));
    if (part.kind === 'statement') statements.push(block);
    for (const token of finishTokens(block, part.kind === 'statement' ? 2 : 1)) tokens.push(token);
    if (tokens.length > MAX_TOKENS) throw limitError('this template has too many expressions', part.start);
  }
  checkStatements(statements);
  return tokens;
}

/** Adds the groups, and packs the place of every name but the keywords, which the parser must recognise. */
function finishTokens(block: readonly Token[], firstName: number): Token[] {
  const open: number[] = [];
  return block.map((token, i) => {
    if (closesGroup(token)) open.pop();
    const group = open.at(-1) ?? -1;
    if (opensGroup(token)) open.push(i);
    const packs =
      token.type === 'Identifier' &&
      i >= firstName &&
      !token.value.includes('\0') &&
      (!isKeyword(token) || block[i - 1]?.type === 'Dot');
    return { ...token, group, value: packs ? packName(token.value, token.offset) : token.value };
  });
}
