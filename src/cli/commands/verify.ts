import { existsSync } from 'node:fs';
import { AppError } from '../../contracts/errors.ts';
import { readText } from '../../runtime/playbook-files.ts';
import { type ExpectedHead, verifyChain } from '../../store/verify-chain.ts';
import type { Command, Context } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { readLog } from '../read-log.ts';

export const verify: Command = async (context) => {
  const { args, terminal } = context;
  const name = args.positionals[0]!;
  const { what, records, expected } = isFile(name) ? fromFile(name) : await fromStore(context, name);
  const report = verifyChain(records, expected);
  if (!report.ok) {
    // The message names the event itself, where it has a number.
    const place = report.runSeq === undefined ? `record ${report.index + 1} was ${report.problem}: ` : '';
    throw new AppError('CHAIN_BROKEN', `${what}: ${place}${report.message}`, {
      problems: [{ index: report.index, runSeq: report.runSeq, problem: report.problem }],
    });
  }
  const { head, erased } = report;
  if (terminal.json) terminal.printJson({ ok: true, records: report.records, head, erased });
  else {
    const gone = erased.length === 0 ? '' : `, ${erased.length} erased on purpose`;
    terminal.print(`${what}: the chain of ${report.records} events is unbroken${gone}.`);
    terminal.print(`head ${head.chainHash}`);
    // A chain alone cannot show that its end was cut off.
    if (!expected)
      terminal.print('Compare the head with one that you trust: a file cannot show that its end is missing.');
  }
  return 0;
};

interface Log {
  readonly what: string;
  readonly records: readonly unknown[];
  readonly expected?: ExpectedHead;
}

async function fromStore(context: Context, name: string): Promise<Log> {
  const run = await namedRun(context, name);
  const records = await readLog(context, run.runId);
  const last = records.at(-1)?.runSeq ?? 0;
  // More may have been appended since the run was looked up.
  const expected = last === run.lastSeq ? { expected: { lastSeq: run.lastSeq, chainHash: run.chainHead } } : {};
  return { what: `run ${run.runId}`, records, ...expected };
}

function fromFile(file: string): Log {
  const lines = readText(file)
    .split('\n')
    .filter((line) => line.trim() !== '');
  if (lines.length === 0) throw new AppError('CHAIN_BROKEN', `${file} holds no events.`);
  const records = lines.map((line, i): unknown => {
    try {
      return JSON.parse(line);
    } catch {
      throw new AppError('CHAIN_BROKEN', `${file}: line ${i + 1} is not JSON.`);
    }
  });
  return { what: file, records };
}

const isFile = (name: string): boolean => name === '-' || /[/\\]|\.jsonl?$/.test(name) || existsSync(name);
