// Lets Node import `runledger.config.ts` and the files beside it that it imports. Only modules that carry the mark are
// touched, so that a program which loads its own TypeScript in another way keeps doing so.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const MARK = '?runledger-config';
const require = createRequire(import.meta.url);

/** Node calls this with a `next` that waits (its thread of hooks) or one that does not (hooks in the thread itself). */
export function resolve(specifier, context, next) {
  if (!context.parentURL?.endsWith(MARK)) return next(specifier, context);
  // The library that runs, not a second copy of it; also where the project has none, as after `npx runledger`.
  if (/^runledger(\/|$)/.test(specifier)) return next(specifier, { ...context, parentURL: import.meta.url });
  const answer = next(specifier, context);
  return typeof answer.then === 'function' ? answer.then(marked) : marked(answer);
}

function marked(answer) {
  const isOwn = answer.url.startsWith('file:') && !answer.url.includes('/node_modules/');
  return isOwn && /\.m?[jt]s$/.test(answer.url) ? { ...answer, url: `${answer.url}${MARK}` } : answer;
}

export function load(url, context, next) {
  if (!url.endsWith(MARK) || !/\.m?ts\?/.test(url)) return next(url, context);
  return strippedModule(fileURLToPath(url.slice(0, -MARK.length)));
}

/** Types become blanks, so that lines and columns stay. Always an ES module, whatever `type` the project has. */
function strippedModule(file) {
  // Only here, because loading it takes a tenth of a second.
  const { transformSync } = require('@swc/wasm-typescript');
  try {
    const { code } = transformSync(readFileSync(file, 'utf8'), { mode: 'strip-only', module: true });
    return { format: 'module', source: code, shortCircuit: true };
  } catch (problem) {
    if (problem instanceof Error) throw problem;
    throw new SyntaxError(`${file}:${problem.startLine}:${problem.startColumn + 1} ${problem.message}`);
  }
}
