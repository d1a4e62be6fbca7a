import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import { callContext } from '../call-context.fixture.ts';
import type { CallContext, ToolOutcome } from '../tool.ts';
import { JavascriptTool } from './javascript-tool.ts';

toolSuite('javascript', {
  open: () => new JavascriptTool(),
  cases: [
    {
      title: 'a program',
      input: { code: 'console.log(token); return token.length', input: { token: 'hunter2' } },
      effect: 'compute',
      hidden: ['hunter2'],
    },
    { title: 'one that throws', input: { code: 'null.x' }, effect: 'compute', fails: 'javascript' },
  ],
  slow: { code: 'for (;;);' },
  abortWithinMs: 3000,
});

const memoryLimitBytes = 32 * 1024 * 1024;
const tool = new JavascriptTool({ maxTimeMs: 20_000, memoryLimitBytes });
const hurried = new JavascriptTool({ maxTimeMs: 800, memoryLimitBytes });
afterAll(() => Promise.all([tool.close(), hurried.close()]));

async function javascript(
  code: string,
  input: Record<string, unknown> = {},
  context: Partial<CallContext> = {},
): Promise<ToolOutcome & { log: string[] }> {
  const log: string[] = [];
  const outcome = await tool.call(
    { code, input },
    callContext({ log: (to, line) => log.push(`${to} ${line}`), ...context }),
  );
  return { ...outcome, log };
}

describe('what a program is given and gives back', () => {
  test.each([
    ['an expression', 'a + b', 3],
    ['an expression with a semicolon', 'a + b;\n', 3],
    ['an object', '{ sum: a + b }', { sum: 3 }],
    ['a returned value', 'if (a > 0) { return "yes" }\nreturn "no"', 'yes'],
    ['the variable result', 'const result = a * 10', 10],
    ['a result without a declaration', 'let x = 1; result = x + b', 3],
    ['a function', '(input) => input.a + input.b', 3],
    ['main', 'function main(input) { return input.a }\nconst other = 1', 1],
    ['main alone', 'function main({ b }) { return b }', 2],
    [
      'an asynchronous main',
      'const wait = () => null;\nasync function main(input) { await wait(); return input.b }',
      2,
    ],
    ['an await at the top', 'const x = await Promise.resolve(5)\nreturn x', 5],
    ['nothing', 'const x = 1', null],
    ['a comment at the end', 'const result = 7 // seven', 7],
    ['a result made from main', 'function main() { console.log("ran"); return 1 }\nconst result = main()', 1],
    ['the input as a whole', 'return input', { a: 1, b: 2 }],
    ['a variable of its own with the name of an input', 'const a = 9\nreturn a', 9],
  ])('%s', async (_title, code, result) => {
    expect(await javascript(code, { a: 1, b: 2 })).toMatchObject({ status: 'ok', result });
  });

  test('args are taken like input', async () => {
    expect(await tool.call({ code: 'a', args: { a: 1 } }, callContext())).toMatchObject({ result: 1 });
  });

  test('a program that calls main itself has it called once', async () => {
    const { log } = await javascript('function main() { console.log("ran"); return 1 }\nconst result = main()');
    expect(log).toEqual(['stdout ran']);
  });

  test('JSON goes through unchanged', async () => {
    const json = fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);
    const values = fc.sample(json, { numRuns: 300, seed: 11 });
    expect((await javascript('v', { v: values })).result).toEqual(values);
    const odd = { 'a/b': '\0', astral: '😀', [`__proto__x`]: 1, constructor: 1, length: 2 };
    expect((await javascript('v', { v: odd })).result).toEqual(odd);
  });

  test.each([
    ['{ d: new Date(0), n: NaN, b: 10n, u: undefined }', { d: '1970-01-01T00:00:00.000Z', n: null, b: '10' }],
    ['new Map([["a", new Set([1, 2])]])', { a: [1, 2] }],
    ['new Uint8Array([1, 2])', [1, 2]],
    ['[undefined, new Error("x")]', [null, { name: 'Error', message: 'x' }]],
  ])('%s becomes JSON', async (code, result) => {
    expect((await javascript(code)).result).toEqual(result);
  });

  test.each([
    ['{ a: () => 1 }', /'a' in it is a function/],
    ['[Infinity]', /infinite/],
    ['{ p: Promise.resolve(1) }', /promise/],
    ['const result = {}; result.self = result', /circular/],
    ['let result = []; for (let i = 0; i < 500; i++) result = [result]', /deeper/],
    ['Symbol("x")', /symbol/],
  ])('%s is refused', async (code, why) => {
    const outcome = await javascript(code);
    expect(outcome).toMatchObject({ status: 'error', error: { kind: 'javascript', code: 'RESULT_NOT_JSON' } });
    expect(outcome.status === 'error' && outcome.error.message).toMatch(why);
  });

  test('megabytes go in and out', async () => {
    const text = 'ä'.repeat(1_000_000);
    expect((await javascript('[v, v.length]', { v: text })).result).toEqual([text, 1_000_000]);
  });
});

describe('errors', () => {
  test('name the type, the message and the lines of the program', async () => {
    const code = 'const x = 1;\nfunction parse() {\n  throw new TypeError("bad");\n}\nparse();';
    expect(await javascript(code)).toMatchObject({
      error: { kind: 'javascript', code: 'TypeError', message: 'bad', retryable: false },
      meta: {
        traceback: [
          { line: 3, in: 'parse' },
          { line: 5, in: '<program>' },
        ],
      },
    });
  });

  test('of syntax name the line', async () => {
    expect(await javascript('let x = 1;\nlet y = = 2;')).toMatchObject({
      error: { code: 'SyntaxError' },
      meta: { traceback: [{ line: 2 }] },
    });
  });

  test.each([
    ['throw "text"', 'Error', 'text'],
    ['throw { a: 1 }', 'Error', '{"a":1}'],
    ['throw null', 'Error', 'null'],
    ['class Busy extends Error { name = "Busy" }\nthrow new Busy("later")', 'Busy', 'later'],
    ['await Promise.reject(new RangeError("r"))\nreturn 1', 'RangeError', 'r'],
    ['const e = new Error("x"); e.name = ""; throw e', 'Error', 'x'],
    ['throw new Error()', 'Error', 'Error'],
    ['function f() { return f() + 1 }\nreturn f()', 'RangeError', 'stack overflow'],
    [
      'await new Promise(() => {})\nreturn 1',
      'NEVER_SETTLED',
      'the program waits for a promise that nothing can settle',
    ],
  ])('%s', async (code, name, message) => {
    expect(await javascript(code)).toMatchObject({ error: { kind: 'javascript', code: name, message } });
  });
});

describe('the console', () => {
  test('is the log', async () => {
    const { log } = await javascript(
      'console.log("a", 1, { b: [2] }, null)\nconsole.error("x\\ny")\nconsole.warn(new Error("w"))',
    );
    expect(log).toEqual(['stdout a 1 {"b":[2]} null', 'stderr x', 'stderr y', 'stderr Error: w']);
  });

  test('speaks while the program runs', async () => {
    const seen: number[] = [];
    const started = performance.now();
    const code =
      'console.log("first")\nconst end = Date.now() + 100; while (Date.now() < end);\nconsole.log("second"); console.log("last")\nconst stop = Date.now() + 700; while (Date.now() < stop);';
    await javascript(code, {}, { log: () => seen.push(performance.now() - started) });
    expect(performance.now() - started - seen[0]!).toBeGreaterThan(500);
  });

  test('is bounded', async () => {
    const { log } = await javascript('for (let i = 0; i < 50_000; i++) console.log("line " + i)');
    expect(log).toHaveLength(10_001);
    expect(log.at(-1)).toMatch(/not logged/);
  });
});

describe('the sandbox', () => {
  test('has nothing of the host', async () => {
    const names = [
      'process',
      'require',
      'fetch',
      'Buffer',
      'setTimeout',
      'WebAssembly',
      'Worker',
      'std',
      'os',
      'module',
      'navigator',
    ];
    const { result } = await javascript(
      `${JSON.stringify(names)}.filter((name) => typeof globalThis[name] !== 'undefined')`,
    );
    expect(result).toEqual([]);
    expect(await javascript('await import("node:fs")\nreturn 1')).toMatchObject({ status: 'error' });
  });

  test('is left by no constructor', async () => {
    const ways = [
      'this.constructor.constructor("return typeof process")()',
      '(async () => {}).constructor("return typeof process")()',
      'console.log.constructor("return typeof process")()',
      'Function("return typeof process")()',
      '(0, eval)("typeof process")',
      'Error.prepareStackTrace = (e, frames) => frames; typeof new Error().stack?.[0]?.getThis?.()?.process',
    ];
    for (const way of ways) {
      const outcome = await javascript(
        way.includes(';') ? `const result = (() => { ${way.replace(/; /, '; return ')} })()` : way,
      );
      expect(outcome).toMatchObject({ status: 'ok', result: 'undefined' });
    }
  });

  test.each([
    'Object.prototype.polluted = 1; Array.prototype.polluted = 1; return {}',
    'const result = JSON.parse(\'{"__proto__": {"polluted": 1}}\')',
  ])('cannot reach our prototypes: %s', async (code) => {
    const outcome = await javascript(code);
    expect(outcome.status).toBe('ok');
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    expect(Object.getPrototypeOf(outcome.result)).toBe(Object.prototype);
  });

  test('is new for every program', async () => {
    await javascript(
      'globalThis.leak = 1; Array.prototype.leak = 1; JSON.stringify = () => "9"; Promise.prototype.then = null; return 1',
    );
    expect(await javascript('[typeof leak, [].leak === undefined, JSON.stringify(1)]')).toMatchObject({
      result: ['undefined', true, '1'],
    });
  });

  test('a program that breaks what makes its result breaks it for itself alone', async () => {
    for (const code of [
      'Promise.prototype.then = () => {}; return 1',
      'String.prototype.slice = () => { throw 1 }; throw new Error("x")',
      'Object.defineProperty(Error.prototype, "name", { get() { throw 1 } }); throw new Error("x")',
      'Object.prototype.toJSON = () => ({ result: undefined }); return {}',
    ]) {
      expect(['ok', 'error']).toContain((await javascript(code)).status);
    }
    expect(await javascript('1')).toMatchObject({ result: 1 });
  });
});

describe('limits', () => {
  test.each([
    ['a loop', 'for (;;);'],
    ['a loop of promises', 'while (true) await null'],
    ['a loop that catches', 'for (;;) try { for (;;); } catch {}'],
    ['a sort that never ends', '[3, 2, 1].sort(() => { for (;;); })'],
    ['a pattern that backtracks', '/(a+)+$/.test("a".repeat(40) + "b")'],
    ['a long array', 'new Array(4e9)'],
    ['a getter while the result is made', '({ get a() { for (;;); } })'],
    ['a name of an error that never comes', 'throw { get name() { for (;;); }, toJSON() { for (;;); } }'],
  ])('%s ends with the time of the sandbox', async (_title, code) => {
    const started = performance.now();
    expect(await hurried.call({ code }, callContext())).toMatchObject({
      error: { kind: 'timeout', code: 'TASK_TIMEOUT' },
    });
    expect(performance.now() - started).toBeLessThan(8000);
    expect(await javascript('1')).toMatchObject({ status: 'ok' });
  });

  test.each([
    ['arrays', 'const a = []; for (;;) a.push(new Array(1000).fill(1))'],
    ['strings', 'const s = []; for (;;) s.push("x".repeat(1024 * 1024) + s.length)'],
    ['bytes', 'const b = []; for (;;) b.push(new Uint8Array(1024 * 1024))'],
    ['an asynchronous bomb', 'const a = []; while (true) { await null; a.push(new Array(10000).fill(1)) }'],
  ])('memory taken by %s ends with the memory of the sandbox', async (_title, code) => {
    const before = process.memoryUsage.rss();
    expect(await javascript(code)).toMatchObject({ error: { kind: 'javascript', code: 'MEMORY_LIMIT' } });
    expect(process.memoryUsage.rss() - before).toBeLessThan(200 * 1024 * 1024);
    expect(await javascript('1')).toMatchObject({ status: 'ok' });
  });

  test('a program that catches what ends it cannot go on for ever, nor take more', async () => {
    const before = process.memoryUsage.rss();
    const outcome = await javascript(
      'const a = []; for (;;) try { for (;;) a.push(new Array(1000).fill(1)) } catch {}',
    );
    expect(outcome).toMatchObject({ error: { kind: 'timeout' } });
    expect(process.memoryUsage.rss() - before).toBeLessThan(200 * 1024 * 1024);
  });

  test('a large result is refused, and output in a loop is cut', async () => {
    const small = new JavascriptTool({ maxResultLength: 1000 });
    expect(await small.call({ code: '"x".repeat(2000)' }, callContext())).toMatchObject({
      error: { code: 'RESULT_TOO_LARGE' },
    });
    await small.close();
    const code = 'for (;;) console.log("x".repeat(1000))';
    expect(await hurried.call({ code }, callContext())).toMatchObject({ error: { kind: 'timeout' } });
  });

  test('the event loop goes on meanwhile', async () => {
    let ticks = 0;
    const timer = setInterval(() => ticks++, 10);
    await javascript('const end = Date.now() + 600; while (Date.now() < end);');
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(15);
  });

  test('programs beyond the number of threads wait, and can be given up while they do', async () => {
    const narrow = new JavascriptTool({ maxWorkers: 1 });
    const first = narrow.call(
      { code: 'const end = Date.now() + 500; while (Date.now() < end); return 1' },
      callContext(),
    );
    const controller = new AbortController();
    const second = narrow.call({ code: '2' }, callContext({ signal: controller.signal }));
    const third = narrow.call({ code: '3' }, callContext());
    controller.abort(new AppError('CANCELLED', 'x'));
    expect(await second).toMatchObject({ error: { kind: 'cancelled' } });
    expect(await first).toMatchObject({ result: 1 });
    expect(await third).toMatchObject({ result: 3 });
    await narrow.close();
  });

  test('the wait for a thread does not count', async () => {
    const narrow = new JavascriptTool({ maxWorkers: 1, maxTimeMs: 3000 });
    const code = 'const end = Date.now() + 900; while (Date.now() < end); return 1';
    const outcomes = await Promise.all(Array.from({ length: 5 }, () => narrow.call({ code }, callContext())));
    expect(outcomes.map(({ result }) => result)).toEqual([1, 1, 1, 1, 1]);
    await narrow.close();
  });

  test('aborts at any moment leave a working pool', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, (_, i) => {
        const controller = new AbortController();
        setTimeout(() => controller.abort(new AppError('TASK_TIMEOUT', 'x')), i * 9);
        const code = 'const end = Date.now() + 10; while (Date.now() < end); return 1';
        return javascript(code, {}, { signal: controller.signal });
      }),
    );
    for (const outcome of outcomes) {
      if (outcome.status === 'error') expect(outcome.error.kind).toBe('timeout');
    }
    const after = await Promise.all(Array.from({ length: 10 }, (_, i) => javascript(`${i}`)));
    expect(after.map(({ result }) => result)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});

test('threads that wait do not keep this process alive', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'javascript-test-'));
  const file = join(folder, 'program.mts');
  const root = join(import.meta.dirname, '..');
  writeFileSync(
    file,
    `import { JavascriptTool } from ${JSON.stringify(join(root, 'javascript/javascript-tool.ts'))};
     import { callContext } from ${JSON.stringify(join(root, '../testing/call-context.ts'))};
     const { result } = await new JavascriptTool().call({ code: '41 + 1' }, callContext());
     process.exitCode = result === 42 ? 7 : 1;`,
  );
  const child = spawn(process.execPath, ['--import', 'tsx', file], { stdio: 'inherit', cwd: join(root, '../..') });
  expect(await new Promise((resolve) => child.once('exit', resolve))).toBe(7);
  rmSync(folder, { recursive: true });
});
