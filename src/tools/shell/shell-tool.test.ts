import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import { callContext } from '../call-context.fixture.ts';
import { processesWith, untilGone } from '../process-table.fixture.ts';
import type { CallContext, ToolOutcome } from '../tool.ts';
import { ShellTool } from './shell-tool.ts';

toolSuite('shell', {
  open: () => new ShellTool({ killGraceMs: 300 }),
  cases: [
    {
      title: 'commands',
      input: { cmds: ['echo $GREETING', 'echo hunter2 >&2'], env: { GREETING: 'hunter3' } },
      effect: 'undeclared',
      hidden: ['hunter2', 'hunter3'],
    },
    { title: 'a command that fails', input: { cmds: ['exit 3'] }, effect: 'undeclared', fails: 'shell' },
  ],
  slow: { cmds: ['trap "" TERM; sleep 60'] },
  abortWithinMs: 3000,
});

const tool = new ShellTool({ killGraceMs: 300, hostEnvironment: { ...process.env, SECRET_OF_OURS: 'hunter2' } });
const folder = mkdtempSync(join(tmpdir(), 'shell-test-'));
afterAll(async () => {
  await tool.close();
  rmSync(folder, { recursive: true });
});

type Result = { exit_code: number; stdout: string; stderr: string; lines: string[]; truncated: boolean };
async function shell(
  input: Record<string, unknown>,
  context: Partial<CallContext> = {},
): Promise<{ outcome: ToolOutcome; result: Result; log: string[] }> {
  const log: string[] = [];
  const outcome = await tool.call(
    input,
    callContext({ log: (stream, line) => log.push(`${stream} ${line}`), ...context }),
  );
  return { outcome, result: outcome.result as Result, log };
}

describe('output', () => {
  test('is a result and a log, line by line', async () => {
    const { result, log } = await shell({ cmds: ['printf "one\\ntwo\\r\\nthree"', 'echo four; echo five >&2'] });
    expect(result).toEqual({
      exit_code: 0,
      stdout: 'one\ntwo\r\nthreefour\n',
      stderr: 'five\n',
      lines: ['one', 'two', 'threefour'],
      truncated: false,
    });
    expect(log.filter((line) => line.startsWith('stdout'))).toEqual([
      'stdout one',
      'stdout two',
      'stdout three',
      'stdout four',
    ]);
    expect(log).toContain('stderr five');
  });

  test('can be written by name, which a socket would refuse', async () => {
    const { result } = await shell({ cmds: ['echo a > /dev/stderr; echo b | tee /dev/stderr; echo c > /dev/stdout'] });
    expect(result).toMatchObject({ exit_code: 0, stdout: 'b\nc\n', stderr: 'a\nb\n' });
  });

  test('keeps characters that arrive in pieces', async () => {
    const { log } = await shell({ cmds: ["printf '\\303'; sleep 0.05; printf '\\244\\n'"] });
    expect(log).toEqual(['stdout ä']);
  });

  test('is bounded in the result and in the log', async () => {
    const { result, log } = await shell({ cmds: ['yes 0123456789 | head -c 8000000; echo end >&2'] });
    expect(result.truncated).toBe(true);
    expect(result.stdout.length).toBe(1024 * 1024);
    expect(log.length).toBeLessThanOrEqual(10_002);
    expect(log).toContainEqual(expect.stringMatching(/is not logged$/));
    const long = await shell({ cmds: ['head -c 3000000 /dev/zero | tr "\\0" x; echo; echo after'] });
    expect(long.log).toHaveLength(2);
    expect(long.log[1]).toBe('stdout after');
  });
});

describe('exit status', () => {
  test('the first command that fails ends the task', async () => {
    const { outcome, result } = await shell({ cmds: ['echo first', 'echo why >&2; exit 7', 'echo never'] });
    expect(outcome).toMatchObject({
      status: 'error',
      error: {
        kind: 'shell',
        code: 'EXIT_7',
        message: 'command 2 of 3 ended with exit status 7: why',
        retryable: false,
      },
    });
    expect(result).toMatchObject({ exit_code: 7, stdout: 'first\n', stderr: 'why\n' });
  });

  test('unless the task goes on after errors', async () => {
    const { outcome, result } = await shell({ cmds: ['exit 7', 'echo on', 'exit 3'], continue_on_error: true });
    expect(outcome.status).toBe('ok');
    expect(result).toMatchObject({ exit_code: 7, stdout: 'on\n' });
    expect(outcome.meta).toMatchObject({ commands: [{ exit_code: 7 }, { exit_code: 0 }, { exit_code: 3 }] });
  });

  test('a signal is named, and may be tried again', async () => {
    const { outcome, result } = await shell({ cmds: 'kill -9 $$' });
    expect(outcome).toMatchObject({ error: { code: 'SIGKILL', retryable: true } });
    expect(result.exit_code).toBe(137);
  });

  test('a command that does not exist has the status of the shell', async () => {
    expect((await shell({ cmds: ['no-such-command-here'] })).outcome).toMatchObject({ error: { code: 'EXIT_127' } });
  });
});

describe('surroundings', () => {
  test('are minimal: secrets of our own process do not leak', async () => {
    const { result } = await shell({
      cmds: ['env'],
      env: { A: 1, B: true, HOME: null },
      input: { CITY: 'Oslo', N: [1] },
    });
    const names = result.lines.map((line) => line.slice(0, line.indexOf('=')));
    expect(result.stdout).not.toContain('hunter2');
    expect(names).not.toContain('HOME');
    expect(result.lines).toEqual(expect.arrayContaining(['A=1', 'B=true', 'CITY=Oslo', 'N=[1]']));
    const known = [
      'PATH',
      'HOME',
      'LANG',
      'LC_ALL',
      'LC_CTYPE',
      'TMPDIR',
      'TZ',
      'A',
      'B',
      'CITY',
      'N',
      'PWD',
      '_',
      'OLDPWD',
      'SHLVL',
    ];
    expect(names.filter((name) => !known.includes(name))).toEqual([]);
  });

  test('data in a variable stays data', async () => {
    const { result } = await shell({ cmds: ['printf %s "$NAME"'], input: { NAME: '$(echo pwned); `id` " \' \n x' } });
    expect(result.stdout).toBe('$(echo pwned); `id` " \' \n x');
  });

  test('the key of a write is at hand', async () => {
    const { result } = await shell({ cmds: ['echo $RUNLEDGER_IDEMPOTENCY_KEY'] }, { idempotencyKey: 'k1' });
    expect(result.stdout).toBe('k1\n');
  });

  test('the working folder is the one given, and stdin is empty', async () => {
    expect((await shell({ cmds: ['pwd -P; cat'], cwd: folder })).result.lines[0]).toContain('shell-test-');
    expect((await shell({ cmds: ['pwd'], cwd: join(folder, 'nope') })).outcome).toMatchObject({
      error: { kind: 'input', code: 'INVALID_STEP_SCHEMA' },
    });
  });

  test.each([
    [{ cmds: ['echo a\0b'] }, 'input'],
    [{ cmds: ['true'], env: { 'A B': '1' } }, 'input'],
    [{ cmds: ['true'], env: { A: 'x\0y' } }, 'input'],
    [{ cmds: [`: ${'x'.repeat(3_000_000)}`] }, 'input'],
  ])('what no system takes is an input error', async (input, kind) => {
    expect((await shell(input)).outcome).toMatchObject({ status: 'error', error: { kind } });
  });
});

describe('the whole group goes', () => {
  const aborted = async (command: string, marker: string, effectClass?: 'write'): Promise<ToolOutcome> => {
    const controller = new AbortController();
    const call = shell({ cmds: [command] }, { signal: controller.signal, ...(effectClass ? { effectClass } : {}) });
    while (processesWith(marker).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    controller.abort(new AppError('TASK_TIMEOUT', 'too slow'));
    return (await call).outcome;
  };

  test('with grandchildren that ignore TERM', async () => {
    const outcome = await aborted(
      `sh -c 'trap "" TERM; sleep 71.01 & sh -c "trap \\"\\" TERM; sleep 71.02; sleep 71.02" & wait; sleep 71.03'`,
      'sleep 71.02',
    );
    expect(outcome).toMatchObject({ error: { kind: 'timeout', retryable: true } });
    expect(processesWith('sleep 71.0')).toEqual([]);
  });

  test('with the grace for those that clean up', async () => {
    const mark = join(folder, 'cleaned');
    await aborted(`sh -c 'trap "sleep 0.1; echo x > ${mark}; exit" TERM; sleep 72.01 & wait'; true`, 'sleep 72.01');
    expect(existsSync(mark)).toBe(true);
  });

  test('a write that was killed may have happened', async () => {
    expect(await aborted('sleep 73.01', 'sleep 73.01', 'write')).toMatchObject({ error: { unknown: true } });
  });

  test('also what a command leaves behind in the background', async () => {
    const started = performance.now();
    const { outcome } = await shell({ cmds: ['sleep 74.01 & echo started'] });
    expect(outcome.status).toBe('ok');
    expect(performance.now() - started).toBeLessThan(5000);
    expect(await untilGone('sleep 74.01')).toEqual([]);
  });

  test('a process that left the group and keeps the output open does not hold the call, nor speaks in the next', async () => {
    const escapee = `setsid sh -c 'sleep 2; echo late; echo late; sleep 75.01' &`;
    const { outcome } = await shell({ cmds: [`${escapee} sleep 0.1; echo done`] });
    expect(outcome).toMatchObject({ status: 'ok', result: { stdout: 'done\n' } });
    const next = await Promise.all(Array.from({ length: 4 }, () => shell({ cmds: ['sleep 1.5; echo next'] })));
    for (const { result } of next) expect(result.stdout).toBe('next\n');
    for (const line of processesWith('sleep 75.01')) process.kill(Number.parseInt(line, 10), 'SIGKILL');
  });

  test('many at once, each aborted at another moment, leave nothing', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 24 }, async (_, i) => {
        const controller = new AbortController();
        setTimeout(() => controller.abort(new AppError('CANCELLED', 'x')), i * 7);
        return (await shell({ cmds: ['sleep 76.01 & sleep 76.02'] }, { signal: controller.signal })).outcome;
      }),
    );
    for (const outcome of outcomes) expect(outcome).toMatchObject({ error: { kind: 'cancelled' } });
    expect(processesWith('sleep 76.0')).toEqual([]);
  });

  test('when this process is killed', async () => {
    const script = join(folder, 'worker.ts');
    const ready = join(folder, 'ready');
    const root = join(import.meta.dirname, '..');
    writeFileSync(
      script,
      `import { ShellTool } from ${JSON.stringify(join(root, 'shell/shell-tool.ts'))};
       import { callContext } from ${JSON.stringify(join(root, '../testing/call-context.ts'))};
       void new ShellTool().call({ cmds: ['echo $PPID > ${ready}; trap "" TERM; sleep 77.01 & sleep 77.02'] }, callContext());`,
    );
    const temporary = join(folder, 'tmp');
    mkdirSync(temporary);
    const worker = spawn(process.execPath, ['--import', 'tsx', script], {
      stdio: 'inherit',
      cwd: join(root, '../..'),
      env: { ...process.env, TMPDIR: temporary },
    });
    while (!existsSync(ready) || processesWith('sleep 77.02').length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(readFileSync(ready, 'utf8').trim()).toBe(String(worker.pid));
    expect(readdirSync(temporary)).toContainEqual(expect.stringContaining('runledger'));
    worker.kill('SIGKILL');
    expect(await untilGone('sleep 77.0')).toEqual([]);
    await vi.waitFor(() => expect(readdirSync(temporary)).not.toContainEqual(expect.stringContaining('runledger')));
  });
});
