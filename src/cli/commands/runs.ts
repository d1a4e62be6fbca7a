import { AppError } from '../../contracts/errors.ts';
import { RUN_STATUSES, type RunStatus } from '../../contracts/states.ts';
import type { Command } from '../context.ts';
import { nextCommand, shellWord } from '../next-command.ts';
import type { Arguments } from '../parse-command.ts';
import { tellingHashes } from '../telling-hashes.ts';
import { type Color, clean, table } from '../terminal.ts';

const PAGE = 20;
const COLORS: Partial<Record<RunStatus, Color>> = {
  COMPLETED: 'green',
  FAILED: 'red',
  RUNNING: 'cyan',
  PAUSED: 'yellow',
};

export const runs: Command = async ({ args, terminal, session }) => {
  const statuses = args.list('status').map(statusOf);
  const since = sinceOf(args.text('since'));
  const limit = args.count('limit', 1) ?? PAGE;
  const store = await session.store();
  const found = await store.listRuns({
    ...(statuses.length === 0 ? {} : { statuses }),
    planId: args.text('plan'),
    since,
    topLevel: !args.has('all'),
    beforeKey: args.count('before', 1),
    limit: limit + 1,
  });
  const page = found.slice(0, limit);
  const next = found.length > limit ? String(page.at(-1)!.runKey) : undefined;
  if (terminal.json) {
    const shown = page.map(({ runKey: _key, decidedSeq: _decided, ...run }) => run);
    terminal.printJson({ runs: shown, ...(next === undefined ? {} : { next }) });
    return 0;
  }
  if (page.length === 0) {
    const isFiltered = ['plan', 'since', 'before'].some((flag) => args.text(flag) !== undefined) || statuses.length > 0;
    terminal.print(isFiltered ? 'No runs fit.' : 'No runs yet.');
    return 0;
  }
  const hashes = await tellingHashes(store, page);
  const isNarrow = process.stdout.isTTY && terminal.columns < 60;
  const rows = page.map((run) => {
    const status = run.status ?? 'PENDING';
    const color = COLORS[status];
    const created = run.createdAt.slice(0, 19).replace('T', ' ');
    const hash = hashes.get(run.runId);
    const plan = `${clean(run.planId)} ${clean(run.planVersion)}${hash === undefined ? '' : `  plan ${hash}`}${run.retryOf === undefined ? '' : `  retry of ${run.retryOf.slice(0, 8)}`}`;
    return [
      run.runId.slice(0, 8),
      color ? terminal.paint(color, status) : status,
      ...(isNarrow ? [] : [created]),
      plan,
    ];
  });
  const head = ['RUN', 'STATUS', ...(isNarrow ? [] : ['CREATED (UTC)']), 'PLAN'];
  const width = process.stdout.isTTY ? terminal.columns : Number.POSITIVE_INFINITY;
  for (const line of table([head, ...rows], width)) terminal.print(line);
  if (next !== undefined) terminal.print(`next: ${nextCommand(args, `runs ${again(args)}--before ${next}`)}`);
  return 0;
};

function statusOf(text: string): RunStatus {
  const found = RUN_STATUSES.find((status) => status === text.toUpperCase());
  if (!found) throw new AppError('USAGE', `--status must be one of ${RUN_STATUSES.join(', ')}, not '${text}'.`);
  return found;
}

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time, or how long ago. */
function sinceOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const ago = /^(\d{1,9})([smhd])$/.exec(text);
  const at = ago
    ? Date.now() - Number(ago[1]) * UNITS[ago[2]!]!
    : /^\d{4}-\d\d-\d\d/.test(text)
      ? Date.parse(text)
      : Number.NaN;
  const isTime = Math.abs(at) <= 8.64e15 && new Date(at).getUTCFullYear() > 0;
  if (!isTime) throw new AppError('USAGE', `--since must be a time such as 2026-01-31T12:00Z or 24h, not '${text}'.`);
  return new Date(at).toISOString();
}

/** The filters of this page, for the next one. */
function again(args: Arguments): string {
  const words = [
    ...args.list('status').map((status) => `--status ${status}`),
    ...['plan', 'since', 'limit'].flatMap((flag) => {
      const value = args.text(flag);
      return value === undefined ? [] : `--${flag} ${shellWord(value)}`;
    }),
    ...(args.has('all') ? ['--all'] : []),
  ];
  return words.map((word) => `${word} `).join('');
}
