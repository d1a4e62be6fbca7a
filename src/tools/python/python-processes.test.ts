import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { callContext } from '../call-context.fixture.ts';
import { processesWith, untilGone } from '../process-table.fixture.ts';
import type { CallContext, ToolOutcome } from '../tool.ts';
import { PythonTool, type PythonToolOptions } from './python-tool.ts';

const hostEnvironment = process.env;
const folder = mkdtempSync(join(tmpdir(), 'python-test-'));
// Servers have their folder on the command line, so that the ones of this file can be told apart.
const usualTemporary = process.env['TMPDIR'];
process.env['TMPDIR'] = folder;
const opened: PythonTool[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((tool) => tool.close()));
});
afterAll(async () => {
  expect(await untilGone(folder)).toEqual([]);
  expect(readdirSync(folder).filter((name) => name.startsWith('runledger'))).toEqual([]);
  rmSync(folder, { recursive: true, force: true });
  if (usualTemporary === undefined) delete process.env['TMPDIR'];
  else process.env['TMPDIR'] = usualTemporary;
});

function open(options: PythonToolOptions = {}): PythonTool {
  const tool = new PythonTool({ hostEnvironment, ...options });
  opened.push(tool);
  return tool;
}

const run = (tool: PythonTool, code: string, context: Partial<CallContext> = {}): Promise<ToolOutcome> =>
  tool.call({ code }, callContext(context));
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const timeout = (ms: number): AbortSignal => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(new AppError('TASK_TIMEOUT', 'too slow')), ms);
  return controller.signal;
};

describe('tasks share nothing', () => {
  test('neither globals, modules, environment nor the working folder of another one', async () => {
    const tool = open();
    const first = await run(
      tool,
      'import json, os, sys, builtins\njson.LEAK = builtins.LEAK = 1\nglobals()["LEAK"] = 1\nos.environ["LEAK"] = "1"\nos.chdir("/")\nsys.modules["leak"] = json\nsys.path.insert(0, "/leak")\nresult = os.getpid()',
    );
    const second = await run(
      tool,
      'import json, os, sys, builtins\nresult = [hasattr(json, "LEAK"), hasattr(builtins, "LEAK"), "LEAK" in globals(), "LEAK" in os.environ, os.getcwd() == "/", "leak" in sys.modules, "/leak" in sys.path]',
    );
    expect(first.status).toBe('ok');
    expect(second).toMatchObject({ result: [false, false, false, false, false, false, false] });
    expect((await run(tool, 'import os\nresult = os.getpid()')).result).not.toBe(first.result);
  });

  test('random numbers differ from task to task', async () => {
    const tool = open();
    const code = 'import random, uuid\nresult = [random.random(), str(uuid.uuid4())]';
    const results = await Promise.all(Array.from({ length: 6 }, () => run(tool, code)));
    expect(new Set(results.map(({ result }) => JSON.stringify(result))).size).toBe(6);
  });

  test('secrets of our own process are not in their environment', async () => {
    const tool = open({ hostEnvironment: { ...hostEnvironment, DATABASE_URL: 'hunter2' }, env: { MINE: '1' } });
    const { result } = await run(tool, 'import os\nresult = dict(os.environ)');
    expect(JSON.stringify(result)).not.toContain('hunter2');
    expect(result).toMatchObject({ MINE: '1' });
  });
});

describe('the pool survives what programs do', () => {
  test.each([
    ['os._exit', 'import os\nos._exit(0)', 'PYTHON_EXITED', false],
    ['a signal to itself', 'import os\nos.kill(os.getpid(), 9)', 'PYTHON_DIED', true],
    ['a crash', 'import ctypes\nctypes.string_at(0)', 'PYTHON_DIED', true],
    ['closing every file', 'import os\nos.closerange(0, 1024)\nresult = 1', 'PYTHON_EXITED', false],
    [
      'closing every file and going on',
      'import os, time\nos.closerange(0, 1024)\ntime.sleep(60)',
      'PYTHON_EXITED',
      false,
    ],
    ['killing the server', 'import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(60)', 'PYTHON_DIED', true],
    ['killing its group', 'import os, signal\nos.killpg(0, signal.SIGKILL)', 'PYTHON_DIED', true],
    ['endless recursion', 'def f(): f()\nf()', 'RecursionError', false],
    ['reading stdin', 'input()', 'EOFError', false],
  ])('%s', async (_title, code, expected, retryable) => {
    const tool = open();
    expect(await run(tool, code)).toMatchObject({ status: 'error', error: { code: expected, retryable } });
    expect(await run(tool, 'result = 1')).toMatchObject({ status: 'ok', result: 1 });
  });

  test.each([
    [
      'threads that never end',
      'import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nresult = 1',
    ],
    ['exit handlers that never end', 'import atexit, time\natexit.register(time.sleep, 60)\nresult = 1'],
    ['a fork that comes back', 'import os\npid = os.fork()\nresult = 1 if pid else 2'],
    ['a process left behind', 'import subprocess\nsubprocess.Popen(["sleep", "81.01"])\nresult = 1'],
    ['closed output', 'import os\nos.close(1)\nos.close(2)\nresult = 1'],
    ['a full pipe', 'import os\nfor i in range(200): os.write(2, b"x" * 65536)\nresult = 1'],
  ])('%s', async (_title, code) => {
    const tool = open();
    const started = performance.now();
    expect(await run(tool, code)).toMatchObject({ status: 'ok', result: 1 });
    expect(performance.now() - started).toBeLessThan(8000);
    expect(await untilGone('sleep 81.01')).toEqual([]);
    expect(await run(tool, 'result = 1')).toMatchObject({ status: 'ok' });
  });

  test('a server that a task stopped goes on, and other tasks do not notice', async () => {
    const tool = open();
    const { result: server } = await run(tool, 'import os\nresult = os.getppid()');
    const stop = 'import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\n';
    const bystander = run(tool, 'import time\ntime.sleep(2)\nresult = 1');
    expect(await run(tool, `${stop}time.sleep(60)`, { signal: timeout(500) })).toMatchObject({
      error: { kind: 'timeout' },
    });
    expect(await run(tool, `${stop}result = 2`)).toMatchObject({ result: 2 });
    const after = await Promise.all(Array.from({ length: 6 }, () => run(tool, 'import os\nresult = os.getppid()')));
    expect(after.map(({ result }) => result)).toEqual(Array(6).fill(server));
    expect(await bystander).toMatchObject({ result: 1 });
  });

  test('memory is limited where a limit is set', async () => {
    const tool = open({ memoryLimitBytes: 512 * 1024 * 1024 });
    expect(await run(tool, 'x = bytearray(10**9)')).toMatchObject({ error: { code: 'MemoryError' } });
    expect(await run(tool, 'x = bytearray(10**7)\nresult = len(x)')).toMatchObject({ result: 10 ** 7 });
  });
});

describe('killing', () => {
  test.each([
    ['a program in native code that holds the interpreter', 'import re\nre.match(r"(a+)+$", "a" * 64 + "b")'],
    [
      'one that blocks signals',
      'import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\nwhile True: time.sleep(1)',
    ],
    ['its children too', 'import subprocess\nsubprocess.run("trap \'\' TERM; sleep 82.01 & sleep 82.02", shell=True)'],
  ])('%s', async (_title, code) => {
    const tool = open();
    await run(tool, 'result = 1');
    const started = performance.now();
    expect(await run(tool, code, { signal: timeout(400) })).toMatchObject({
      error: { kind: 'timeout', code: 'TASK_TIMEOUT', retryable: true },
    });
    expect(performance.now() - started).toBeLessThan(5000);
    expect(await untilGone('sleep 82.0')).toEqual([]);
  });

  test('a write that was killed, or died, may have happened', async () => {
    const tool = open();
    await run(tool, 'result = 1');
    const effectClass = 'write' as const;
    expect(await run(tool, 'import time\ntime.sleep(60)', { effectClass, signal: timeout(500) })).toMatchObject({
      error: { kind: 'timeout', unknown: true },
    });
    expect(await run(tool, 'import os\nos._exit(1)', { effectClass })).toMatchObject({ error: { unknown: true } });
    expect(await run(tool, 'raise ValueError()', { effectClass })).not.toHaveProperty('error.unknown');
  });

  test('at any moment leaves a working pool and no process', async () => {
    const tool = open({ maxProcesses: 4 });
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        run(tool, 'import time\ntime.sleep(0.05)\nresult = 1', { signal: timeout(5 + i * 11) }),
      ),
    );
    for (const outcome of outcomes) {
      if (outcome.status === 'error') expect(outcome.error.kind).toBe('timeout');
    }
    const after = await Promise.all(Array.from({ length: 8 }, (_, i) => run(tool, `result = ${i}`)));
    expect(after.map(({ result }) => result)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    await tool.close();
    expect(await untilGone(folder)).toEqual([]);
  });
});

describe('processes', () => {
  test('run at most as many at once as allowed, the others wait their turn', async () => {
    const tool = open({ maxProcesses: 2 });
    const log = join(folder, 'turns');
    const code = `import time\nopen(${JSON.stringify(log)}, "a").write("+")\ntime.sleep(0.15)\nopen(${JSON.stringify(log)}, "a").write("-")\nresult = 1`;
    const outcomes = await Promise.all(Array.from({ length: 7 }, () => run(tool, code)));
    expect(outcomes.every(({ status }) => status === 'ok')).toBe(true);
    const turns = execFileSync('cat', [log], { encoding: 'utf8' });
    let [now, most] = [0, 0];
    for (const turn of turns) {
      now += turn === '+' ? 1 : -1;
      most = Math.max(most, now);
    }
    expect(most).toBe(2);
  });

  test('are let go after a while without work, and come back', async () => {
    const tool = open({ idleMs: 100, cwd: folder });
    const { result } = await run(tool, 'import os\nresult = os.getppid()');
    await vi.waitFor(() => expect(() => process.kill(result as number, 0)).toThrow(), { timeout: 5000 });
    expect(await run(tool, 'result = 1')).toMatchObject({ status: 'ok' });
  });

  test('end with the tool, and so does its folder', async () => {
    const tool = open();
    const { result: server } = await run(tool, 'import os\nresult = os.getppid()');
    const argumentsOfServer = processesWith('fork_server.py').find((line) => line.startsWith(`${server} `))!;
    const own = argumentsOfServer.split(' ').find((part) => part.includes('runledger-py-'))!;
    expect(existsSync(own)).toBe(true);
    await tool.close();
    expect(existsSync(own)).toBe(false);
    expect(await untilGone(own, 500)).toEqual([]);
  });

  test('end when this process is killed; and an idle pool does not keep it alive', async () => {
    const temporary = join(folder, 'tmp');
    mkdirSync(temporary);
    const ready = join(folder, 'ready');
    const root = join(import.meta.dirname, '..');
    const program = (body: string): string => {
      const file = join(folder, `${Math.random()}.mts`);
      writeFileSync(
        file,
        `import { PythonTool } from ${JSON.stringify(join(root, 'python/python-tool.ts'))};
         import { callContext } from ${JSON.stringify(join(root, '../testing/call-context.ts'))};
         const tool = new PythonTool({ hostEnvironment: process.env });
         ${body}`,
      );
      return file;
    };
    const start = (file: string) =>
      spawn(process.execPath, ['--import', 'tsx', file], {
        stdio: 'inherit',
        cwd: join(root, '../..'),
        env: { ...process.env, TMPDIR: temporary },
      });
    const killed = start(
      program(
        `const code = 'import subprocess\\nopen("${ready}", "w")\\nsubprocess.run("sleep 83.01", shell=True)';
         void tool.call({ code }, callContext());`,
      ),
    );
    while (!existsSync(ready) || processesWith('sleep 83.01').length === 0) await sleep(50);
    expect(readdirSync(temporary)).toContainEqual(expect.stringContaining('runledger-py-'));
    killed.kill('SIGKILL');
    expect(await untilGone('sleep 83.01')).toEqual([]);
    expect(await untilGone(temporary)).toEqual([]);
    await vi.waitFor(() => expect(readdirSync(temporary).filter((name) => name.startsWith('runledger'))).toEqual([]));

    const idle = start(
      program(`console.assert((await tool.call({ code: 'result = 1' }, callContext())).result === 1);`),
    );
    expect(await new Promise((resolve) => idle.once('exit', resolve))).toBe(0);
    expect(await untilGone(temporary)).toEqual([]);
  });
});

describe('the interpreter', () => {
  test('that is not there is told apart from one that fails, with what to do', async () => {
    for (const [python, why] of [
      [join(folder, 'no-such-python'), 'was not found'],
      ['/bin/false', 'ended with exit status 1'],
      [folder, 'cannot be started (EACCES)'],
    ] as const) {
      const outcome = await run(open({ python }), 'result = 1');
      expect(outcome).toMatchObject({ error: { kind: 'python', code: 'TOOL_UNAVAILABLE', retryable: false } });
      const message = outcome.status === 'error' ? outcome.error.message : '';
      expect(message).toContain(why);
      expect(message).toContain('install Python 3.8');
    }
  });

  test('that is too old is refused', async () => {
    const old = join(folder, 'old-python');
    writeFileSync(
      old,
      `#!/bin/sh\nexec python3 -c 'import sys\nscript = sys.argv[1]\nsys.argv = sys.argv[1:]\nsys.version_info = (3, 6, 8)\nexec(compile(open(script).read(), script, "exec"), {"__name__": "__main__", "__file__": script})' "$@"\n`,
    );
    chmodSync(old, 0o755);
    const outcome = await run(open({ python: old }), 'result = 1');
    expect(outcome).toMatchObject({ error: { code: 'TOOL_UNAVAILABLE' } });
    expect(outcome.status === 'error' && outcome.error.message).toContain('Python 3.6 is too old');
  });

  test('is that of the active virtual environment, with its modules', async () => {
    const venv = join(folder, 'venv');
    execFileSync('python3', ['-m', 'venv', '--without-pip', venv]);
    const lib = join(venv, 'lib', readdirSync(join(venv, 'lib'))[0]!, 'site-packages');
    writeFileSync(join(lib, 'only_in_venv.py'), 'ANSWER = 42\n');
    const tool = open({ hostEnvironment: { ...hostEnvironment, VIRTUAL_ENV: venv } });
    const outcome = await tool.call(
      { code: 'import sys\nresult = [only_in_venv.ANSWER, sys.prefix]', libs: ['only_in_venv'] },
      callContext(),
    );
    expect(outcome).toMatchObject({ status: 'ok', result: [42, venv] });
    expect(await run(open(), 'import only_in_venv')).toMatchObject({ error: { code: 'ModuleNotFoundError' } });
  });

  test('imports what it is told to beforehand, once for all tasks', async () => {
    const modules = join(folder, 'modules');
    mkdirSync(modules);
    writeFileSync(join(modules, 'slow_import.py'), 'import os\nPID = os.getpid()\n');
    const tool = open({ modulePaths: [modules], preload: ['slow_import'] });
    const outcomes = await Promise.all([1, 2].map(() => run(tool, 'import slow_import\nresult = slow_import.PID')));
    expect(outcomes[0]!.result).toBe(outcomes[1]!.result);
    const broken = await run(open({ preload: ['no_such_module'] }), 'result = 1');
    expect(broken).toMatchObject({ error: { code: 'TOOL_UNAVAILABLE' } });
    expect(broken.status === 'error' && broken.error.message).toContain('no_such_module');
  });

  test('does not import from the folder of our own files, nor from the working folder', async () => {
    writeFileSync(join(folder, 'lurking.py'), '');
    const tool = open({ cwd: folder });
    for (const name of ['to_json', 'run_task', 'fork_server', 'lurking']) {
      const code = `import importlib.util\nresult = importlib.util.find_spec("${name}") is None`;
      expect(await run(tool, code)).toMatchObject({ result: true });
    }
  });
});
