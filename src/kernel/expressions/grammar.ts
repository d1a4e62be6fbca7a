import * as jinja from '@huggingface/jinja';
import type { Statement } from './ast.ts';
import type { Token } from './token.ts';

/**
 * The two functions of the library that are used. Its declarations import each other without file extensions, so under
 * NodeNext they resolve to nothing; these types stand in for them.
 */
export const tokenize: (source: string) => readonly Pick<Token, 'type' | 'value'>[] = jinja.tokenize;
export const parse: (tokens: readonly Token[]) => { readonly body: readonly Statement[] } = jinja.parse;
