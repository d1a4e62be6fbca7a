import type { LedgerRecord } from '../../contracts/envelope.ts';
import { isTerminal } from '../../contracts/states.ts';
import { canonicalView } from '../../kernel/canonical-view.ts';
import type { Command, Context } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { clean, crop, pad } from '../terminal.ts';

const PAGE = 1000;

export const events: Command = async (context) => {
  const { args, session } = context;
  const afterSeq = args.count('after') ?? 0;
  const types = args.list('type');
  const run = await namedRun(context, args.positionals[0]!);
  const store = await session.store();
  if (args.has('follow')) {
    const stop = new AbortController();
    const leave = (): void => stop.abort();
    process.once('SIGINT', leave);
    process.once('SIGTERM', leave);
    for await (const record of store.follow(run.runId, { afterSeq, signal: stop.signal })) {
      if (types.length === 0 || types.includes(record.eventType)) show(context, record);
      if (ENDS.includes(record.eventType)) break;
      const now = record.runSeq >= run.lastSeq ? await store.findRun(run.runId) : undefined;
      if (now?.status && isTerminal(now.status) && record.runSeq >= now.lastSeq) break;
    }
    return 0;
  }
  for (let after = afterSeq; ; ) {
    const page = await store.readEvents(run.runId, {
      afterSeq: after,
      limit: PAGE,
      ...(types.length === 0 ? {} : { types }),
    });
    for (const record of page) show(context, record);
    if (page.length < PAGE) return 0;
    after = page.at(-1)!.runSeq;
  }
};

const ENDS = ['RunCompleted', 'RunFailed', 'RunCancelled'];

function show({ args, terminal }: Context, record: LedgerRecord): void {
  if (args.has('canonical')) {
    for (const event of canonicalView(record)) {
      if (terminal.json) terminal.print(JSON.stringify(event));
      else print(record.runSeq, event.timestamp, event.event_type, record.entity ?? record.stepId, event.payload);
    }
  } else if (terminal.json) terminal.print(JSON.stringify(record));
  else
    print(
      record.runSeq,
      record.persistedAt,
      record.eventType,
      record.entity ?? record.stepId,
      record.erased ? 'erased' : record.payload,
    );

  function print(seq: number, at: string, type: string, place: string | undefined, payload: unknown): void {
    const text =
      payload === undefined ? '' : clean(typeof payload === 'string' ? payload : JSON.stringify(payload), 2000);
    const { columns, symbols } = terminal;
    if (process.stdout.isTTY && columns < 90) {
      const short = `${String(seq).padStart(4)} ${type} ${clean(place ?? '')}`.trimEnd();
      terminal.print(crop(`${short}  ${text}`.trimEnd(), columns, symbols.more));
      return;
    }
    const head = `${String(seq).padStart(5)}  ${at.slice(11, 23)}  ${pad(type, 26)}  ${pad(clean(place ?? ''), 16)}`;
    const line = `${head}  ${text}`.trimEnd();
    terminal.print(process.stdout.isTTY ? crop(line, columns, symbols.more) : line);
  }
}
