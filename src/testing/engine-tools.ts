import { existsSync } from 'node:fs';
import { appendFile, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import { defineTool, toolFailure } from '../tools/define-tool.ts';
import type { Tool } from '../tools/tool.ts';

const fields = {
  /** Every call leaves a line in this file, so that other processes can count what happened. */
  file: Type.String(),
  label: Type.Optional(Type.Unknown()),
  result: Type.Optional(Type.Unknown()),
  /** The first calls with this label fail. */
  fail: Type.Optional(Type.Number()),
  retryable: Type.Optional(Type.Boolean()),
  delay_ms: Type.Optional(Type.Number()),
  /** The call goes on when this file is there. */
  wait_for: Type.Optional(Type.String()),
};

async function lines(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.split('\n').filter((line) => line !== '');
}

interface ProbeInput {
  readonly file: string;
  readonly label?: unknown;
  readonly result?: unknown;
  readonly fail?: number;
  readonly retryable?: boolean;
  readonly delay_ms?: number;
  readonly wait_for?: string;
}

async function probe(input: ProbeInput, signal: AbortSignal, mark: string): Promise<unknown> {
  const label = String(input.label ?? 'call');
  await appendFile(input.file, `${label} ${mark}\n`);
  if (input.delay_ms) await sleep(input.delay_ms, undefined, { signal });
  while (input.wait_for !== undefined && !existsSync(input.wait_for)) await sleep(10, undefined, { signal });
  const calls = (await lines(input.file)).filter((line) => line.startsWith(`${label} `)).length;
  if (calls <= (input.fail ?? 0)) {
    throw toolFailure({ code: 'PROBE', message: `call ${calls} fails`, retryable: input.retryable ?? true });
  }
  return input.result ?? calls;
}

/** Tools that leave traces outside of the run, for suites that count what happened in the world. */
export function engineTools(): Tool[] {
  return [
    defineTool({
      kind: 'probe',
      input: Type.Object(fields),
      effect: 'read',
      run: (input, { signal }) => probe(input, signal, 'read'),
    }),
    defineTool({
      kind: 'effect',
      input: Type.Object(fields),
      effect: 'write',
      run: (input, context) => probe(input, context.signal, context.idempotencyKey ?? 'no-key'),
      reconcile: async (input, context) => {
        const found = (await lines(input.file)).some((line) => line.endsWith(` ${context.idempotencyKey}`));
        return found ? { found: 'happened', result: input.result ?? null } : { found: 'absent' };
      },
      reverse: (input) => ({ kind: 'effect', file: input.file, label: 'undo' }),
    }),
    defineTool({
      kind: 'blind_effect',
      input: Type.Object(fields),
      effect: 'write',
      run: (input, context) => probe(input, context.signal, context.idempotencyKey ?? 'no-key'),
    }),
  ];
}

/** For the compiler, which must know the fields of tools that are not built in. */
export const ENGINE_TOOL_FORMS = { probe: {}, effect: {}, blind_effect: {} } as const;
