import { existsSync } from 'node:fs';
import { AppError } from '../../contracts/errors.ts';
import { readText } from '../../runtime/playbook-files.ts';
import { type ExpectedHead, verifyChain } from '../../store/verify-chain.ts';
import type { Command, Context } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { nextCommand } from '../next-command.ts';
import { readLog } from '../read-log.ts';

export const verify: Command = async (context) => {
  const { args, terminal } = context;
  const name = args.positionals[0]!;
  const { what, records, expected } = isFile(name) ? fromFile(context, name) : await fromStore(context, name);
  const report = verifyChain(records, expected);
  if (!report.ok) {
    throw new AppError('CHAIN_BROKEN', `${what}: ${report.message}`, {
      problems: [{ index: report.index, runSeq: report.runSeq, problem: report.problem }],
      ...(beginsLate(records) ? { next: `Only a whole log can be checked. ${howToMake(context)}` } : {}),
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

function fromFile(context: Context, file: string): Log {
  const what = file === '-' ? 'standard input' : file;
  const lines = readText(file)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const noLog = (problem: string): AppError =>
    new AppError('SCHEMA_VALIDATION_FAILED', `${what} is not a log: ${problem}.`, {
      next: `A log has the record of one event in each line, with its proof. ${howToMake(context)}`,
    });
  if (lines.length === 0) throw noLog('it is empty');
  const records = lines.map((line, i): unknown => {
    try {
      return JSON.parse(line);
    } catch {
      // What begins as a log was one.
      if (i === 0) throw noLog('its first line is not JSON');
      throw new AppError('CHAIN_BROKEN', `${what}: line ${i + 1} is not JSON.`);
    }
  });
  if (!isRecord(records[0])) throw noLog('its first line is not the record of an event');
  return { what, records };
}

/** The view of the canonical taxonomy, and whatever else is JSON, has no proof. */
const isRecord = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'runSeq' in value && 'proof' in value;

const beginsLate = ([first]: readonly unknown[]): boolean => Number((first as { runSeq?: unknown }).runSeq) > 1;

/** Without --after and --type, which leave events out, and without --canonical. */
const howToMake = ({ args }: Context): string => `To make one: ${nextCommand(args, 'events RUN --json')} > run.jsonl`;

const isFile = (name: string): boolean => name === '-' || /[/\\]|\.jsonl?$/.test(name) || existsSync(name);
