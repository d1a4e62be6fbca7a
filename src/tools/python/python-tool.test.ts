import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toolSuite } from '../../testing/tool.suite.ts';
import { callContext } from '../call-context.fixture.ts';
import type { CallContext, ToolOutcome } from '../tool.ts';
import { PythonTool } from './python-tool.ts';

const hostEnvironment = process.env;

toolSuite('python', {
  open: () => new PythonTool({ hostEnvironment }),
  cases: [
    {
      title: 'a program',
      input: { code: 'print(token)\nresult = len(token)', input: { token: 'hunter2' } },
      effect: 'undeclared',
      hidden: ['hunter2'],
    },
    { title: 'one that raises', input: { code: 'raise KeyError("x")' }, effect: 'undeclared', fails: 'python' },
  ],
  slow: { code: 'import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)' },
  abortWithinMs: 3000,
});

let tool: PythonTool;
beforeAll(() => {
  tool = new PythonTool({ hostEnvironment });
});
afterAll(() => tool.close());

async function python(
  code: string,
  more: Record<string, unknown> = {},
  context: Partial<CallContext> = {},
): Promise<ToolOutcome & { log: string[] }> {
  const log: string[] = [];
  const outcome = await tool.call(
    { code, ...more },
    callContext({ log: (to, line) => log.push(`${to} ${line}`), ...context }),
  );
  return { ...outcome, log };
}

describe('what a program is given and gives back', () => {
  test('keys of input and args are variables, and `result` is the result', async () => {
    expect(await python('result = {"sum": a + b}', { args: { a: 1, b: 5 }, input: { b: 2 } })).toMatchObject({
      result: { sum: 3 },
    });
    expect(await python('x = 1')).toMatchObject({ status: 'ok', result: null });
    expect(await python('pass', { input: { result: 7 } })).toMatchObject({ result: 7 });
  });

  test('main gets the parameters that it names', async () => {
    const input = { a: 1, b: 2, c: 3 };
    expect(await python('def main(a, b=9, z=8, *, c): return [a, b, c, z]', { input })).toMatchObject({
      result: [1, 2, 3, 8],
    });
    expect(await python('def main(a, **rest): return rest', { input })).toMatchObject({ result: { b: 2, c: 3 } });
    expect(await python('def main(input_data): return input_data', { input })).toMatchObject({ result: input });
    expect(await python('def main(): return 5')).toMatchObject({ result: 5 });
    expect(await python('main = lambda a: a + 1', { input })).toMatchObject({ result: 2 });
    const missing = await python('def main(a, nope): pass', { input });
    expect(missing).toMatchObject({ error: { code: 'TypeError' } });
    expect(missing.status === 'error' && missing.error.message).toContain("needs 'nope'");
  });

  test('main may be asynchronous', async () => {
    const code = 'import asyncio\nasync def main(n):\n  await asyncio.sleep(0.01)\n  return n * 2';
    expect(await python(code, { input: { n: 21 } })).toMatchObject({ result: 42 });
  });

  test('main runs once: neither a result made from it nor a block for scripts makes it run twice', async () => {
    const twice = await python('def main():\n  print("ran")\n  return 1\nresult = main()');
    expect(twice).toMatchObject({ result: 1, log: ['stdout ran'] });
    const script = await python('def main():\n  print("ran")\n  return 1\nif __name__ == "__main__":\n  main()');
    expect(script).toMatchObject({ result: 1, log: ['stdout ran'] });
    expect(await python('if __name__ == "__main__":\n  result = 3')).toMatchObject({ result: 3 });
  });

  test('libs are imported before the program, under the name that it uses', async () => {
    expect(await python('result = [math.floor(2.5), os.path.sep]', { libs: ['math', 'os.path'] })).toMatchObject({
      result: [2, '/'],
    });
    const libs = { m: 'math', p: 'os.path', Fraction: { from: 'fractions', import: 'Fraction' } };
    expect(await python('result = [m.floor(2.5), p.sep, str(Fraction(1, 2))]', { libs })).toMatchObject({
      result: [2, '/', '1/2'],
    });
    const missing = await python('result = 1', { libs: ['no_such_library'] });
    expect(missing).toMatchObject({
      error: { kind: 'python', code: 'ModuleNotFoundError' },
      py: { exception_type: 'ModuleNotFoundError' },
    });
    expect(missing.status === 'error' && missing.error.message).toContain('no_such_library');
  });

  test('a secret that auth names, and the key of a write, are at hand', async () => {
    const code = 'import os\nresult = [auth, os.environ["RUNLEDGER_IDEMPOTENCY_KEY"]]';
    const log = (): void => {};
    const outcome = await tool.call(
      { code, auth: 'db' },
      callContext({ log, secrets: { db: { user: 'u' } }, idempotencyKey: 'k1' }),
    );
    expect(outcome).toMatchObject({ result: [{ user: 'u' }, 'k1'] });
    expect(await tool.call({ code, auth: 'nope' }, callContext())).toMatchObject({
      status: 'error',
      error: { code: 'SECRET_NOT_FOUND' },
    });
  });

  test('names that Python keeps for itself cannot be set', async () => {
    expect(await python('result = 1', { input: { __builtins__: {} } })).toMatchObject({
      error: { kind: 'input', code: 'INVALID_STEP_SCHEMA' },
    });
  });

  test('JSON goes through unchanged', async () => {
    const json = fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);
    const values = fc.sample(json, { numRuns: 300, seed: 7 });
    expect(await python('result = v', { input: { v: values } })).toMatchObject({ status: 'ok', result: values });
    const text = { lone: '\ud800', nul: '\0', astral: '😀', key: { 'a/b~c': 1 } };
    expect(await python('result = v', { input: { v: text } })).toMatchObject({ result: text });
  });
});

describe('results', () => {
  test.each([
    ['float("nan")', null],
    ['[1.5, float("nan")]', [1.5, null]],
    ['2**53 - 1', 2 ** 53 - 1],
    ['2**64', '18446744073709551616'],
    ['True', true],
    ['(1, 2)', [1, 2]],
    ['{3, 1, 2}', [1, 2, 3]],
    ['frozenset("ba")', ['a', 'b']],
    ['range(3)', [0, 1, 2]],
    ['{"a": 1}.keys()', ['a']],
    ['{1: "a", None: "b", 2.5: "c", True and False: "d"}', { 1: 'a', null: 'b', 2.5: 'c', false: 'd' }],
    ['__import__("decimal").Decimal("10.10")', '10.10'],
    ['__import__("decimal").Decimal("NaN")', null],
    ['__import__("datetime").datetime(2026, 1, 2, 3, 4, 5)', '2026-01-02T03:04:05'],
    ['__import__("datetime").date(2026, 1, 2)', '2026-01-02'],
    ['__import__("datetime").timedelta(minutes=1.5)', 90],
    ['__import__("uuid").UUID(int=1)', '00000000-0000-0000-0000-000000000001'],
    ['__import__("pathlib").PurePosixPath("/a/b")', '/a/b'],
    ['__import__("collections").OrderedDict(b=1, a=2)', { b: 1, a: 2 }],
    ['__import__("collections").deque([1])', [1]],
    ['__import__("collections").namedtuple("P", "x y")(1, 2)', { x: 1, y: 2 }],
    ['__import__("http").HTTPStatus.OK', 200],
    ['__import__("fractions").Fraction(1, 3)', '1/3'],
    ['__import__("dataclasses").make_dataclass("D", ["x"])(x={1})', { x: [1] }],
  ])('%s becomes %j', async (expression, expected) => {
    expect(await python(`result = ${expression}`)).toMatchObject({ status: 'ok', result: expected });
  });

  test('values of numpy and pandas are told by their shape', async () => {
    // The libraries themselves are large; what matters is what these classes look like.
    const fake = `
import types, sys
numpy = types.ModuleType("numpy"); pandas = types.ModuleType("pandas")
class int64:
    def __init__(self, v): self.v = v
    def item(self): return self.v
    def tolist(self): return self.v
class ndarray:
    def __init__(self, v): self.v = v
    def tolist(self): return self.v
class DataFrame:
    def to_dict(self, how): return [{"a": int64(1), "b": float("nan")}] if how == "records" else None
class NAType: pass
int64.__module__ = ndarray.__module__ = "numpy"; DataFrame.__module__ = NAType.__module__ = "pandas.core"
result = {"n": int64(7), int64(1): ndarray([1.5, float("nan")]), "df": DataFrame(), "na": NAType()}
`;
    expect(await python(fake)).toMatchObject({
      result: { n: 7, 1: [1.5, null], df: [{ a: 1, b: null }], na: null },
    });
  });

  test.each([
    ['{"a": [1, b"x"]}', '/a/1', /bytes/],
    ['[float("inf")]', '/0', /infinite/],
    ['{"f": print}', '/f', /builtin_function/],
    ['{(1, 2): 3}', '', /key of type tuple/],
    ['{1: "a", "1": "b"}', '', /two keys/],
    ['{"a/b": object()}', '/a~1b', /object/],
    ['(x for x in [])', '', /generator/],
  ])('%s is refused with its place', async (expression, path, why) => {
    const outcome = await python(`result = ${expression}`);
    expect(outcome).toMatchObject({ status: 'error', error: { kind: 'python', code: 'RESULT_NOT_JSON' } });
    const message = outcome.status === 'error' ? outcome.error.message : '';
    expect(message).toMatch(why);
    expect(message).toContain(path);
  });

  test('what contains itself is refused', async () => {
    expect(await python('result = []\nresult.append(result)')).toMatchObject({ error: { code: 'RESULT_NOT_JSON' } });
  });

  test('megabytes go in and out while the program prints', async () => {
    const text = 'ä'.repeat(3_000_000);
    const outcome = await python('for i in range(5000): print(i, "x" * 200)\nresult = [v, v]', { input: { v: text } });
    expect(outcome).toMatchObject({ status: 'ok', result: [text, text] });
    expect(outcome.log).toHaveLength(5000);
    expect(outcome.log[4999]).toContain('4999');
  });

  test('a result beyond the limit is refused', async () => {
    const small = new PythonTool({ hostEnvironment, maxResultBytes: 1000 });
    const outcome = await small.call({ code: 'result = "x" * 2000' }, callContext());
    expect(outcome).toMatchObject({ error: { code: 'RESULT_TOO_LARGE', retryable: false } });
    await small.close();
  });
});

describe('exceptions', () => {
  test("name the type, the message and the lines of the program's own code", async () => {
    const code = `
import json
def parse(text):
    return json.loads(text)

def main(text):
    try:
        return parse(text)
    except ValueError as error:
        raise RuntimeError("no good") from error
`;
    expect(await python(code, { input: { text: '{' } })).toMatchObject({
      status: 'error',
      error: {
        kind: 'python',
        code: 'RuntimeError',
        message: 'no good (line 10: raise RuntimeError("no good") from error)',
        retryable: false,
      },
      py: { exception_type: 'RuntimeError' },
      meta: {
        exception_module: 'builtins',
        traceback: [{ line: 10, in: 'main', code: 'raise RuntimeError("no good") from error' }],
        causes: [{ exception: 'JSONDecodeError' }],
      },
    });
  });

  test('do not show where the host keeps its Python', async () => {
    const outcome = await python('from json import nope');
    expect(outcome).toMatchObject({ error: { code: 'ImportError' } });
    const prefix = (await python('import sys\nresult = sys.base_prefix')) as { result?: string };
    expect(JSON.stringify(outcome)).not.toContain(prefix.result);
  });

  test('of syntax name the line', async () => {
    expect(await python('x = 1\ny = = 2')).toMatchObject({
      error: { code: 'SyntaxError', message: expect.stringMatching(/ \(line 2: y = = 2\)$/) },
      meta: { traceback: [{ line: 2, code: 'y = = 2' }] },
    });
  });

  test.each([
    ['raise ConnectionResetError("gone")', true],
    ['raise TimeoutError("slow")', true],
    ['raise ValueError("bad")', false],
    ['class Busy(Exception): retryable = True\nraise Busy("later")', true],
  ])('%s may be tried again: %s', async (code, retryable) => {
    expect(await python(code)).toMatchObject({ error: { retryable } });
  });

  test('an exception that cannot be printed is an exception still', async () => {
    const code = 'class E(Exception):\n  def __str__(self): raise ValueError()\nraise E()';
    expect(await python(code)).toMatchObject({ error: { code: 'E', message: 'E (line 3: raise E())' } });
  });

  test('sys.exit ends the program; with a status it is an error', async () => {
    expect(await python('import sys\nresult = 4\nsys.exit()\nresult = 5')).toMatchObject({ result: 4 });
    expect(await python('import sys\nsys.exit(3)')).toMatchObject({
      error: { code: 'SystemExit', message: 'the program called sys.exit(3) (line 2: sys.exit(3))' },
    });
  });
});

describe('output', () => {
  test('of every origin is logged line by line, in the order of its stream', async () => {
    const code = `
import os, subprocess, sys
print("one")
os.write(1, b"two\\n")
subprocess.run("echo three; echo err > /dev/stderr", shell=True, check=True)
sys.stdout.write("four")
print("warn", file=sys.stderr)
sys.stdout = None
`;
    const { log } = await python(code);
    expect(log.filter((line) => line.startsWith('stdout'))).toEqual([
      'stdout one',
      'stdout two',
      'stdout three',
      'stdout four',
    ]);
    expect(log.filter((line) => line.startsWith('stderr'))).toEqual(['stderr err', 'stderr warn']);
  });

  test('comes while the program runs', async () => {
    const seen: number[] = [];
    const started = performance.now();
    await tool.call(
      { code: 'import time\nprint("first")\ntime.sleep(0.8)\nprint("last")' },
      callContext({ log: () => seen.push(performance.now() - started) }),
    );
    expect(seen[1]! - seen[0]!).toBeGreaterThan(500);
  });

  test('cannot be taken for a result', async () => {
    const forged = 'import os\nos.write(1, b"\\x00\\x00\\x00\\x0e{\\"result\\": 99}")\nresult = 1';
    expect(await python(forged)).toMatchObject({ result: 1 });
  });
});
