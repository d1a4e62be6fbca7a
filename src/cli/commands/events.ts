import { EVENT_TYPES } from '../../contracts/catalogue.ts';
import type { LedgerRecord } from '../../contracts/envelope.ts';
import { AppError } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import { canonicalView } from '../../kernel/canonical-view.ts';
import { closestName } from '../../lib/closest-name.ts';
import type { Command, Context } from '../context.ts';
import { eventPhrase } from '../event-phrase.ts';
import { LoopItems } from '../loop-items.ts';
import { namedRun } from '../named-run.ts';
import { placeName } from '../place-name.ts';
import { planPlaces } from '../plan-places.ts';
import { located } from '../run-tree.ts';
import { clean, crop, pad } from '../terminal.ts';

const PAGE = 1000;

export const events: Command = async (context) => {
  const { args, terminal, session } = context;
  const afterSeq = args.count('after') ?? 0;
  const types = args.list('type').map(typeOf);
  const run = await namedRun(context, args.positionals[0]!);
  const store = await session.store();
  const items = terminal.json ? new LoopItems() : await LoopItems.of(store, run.runId);
  let places: Words['places'];
  const tell = async (record: LedgerRecord): Promise<void> => {
    // Only an error names a place in the plan, which is read when there is one.
    if (record.payload?.['error'] !== undefined && !terminal.json) places ??= await planPlaces(context, run.runId);
    show(context, record, { items, places });
  };
  if (args.has('follow')) {
    const stop = new AbortController();
    const leave = (): void => stop.abort();
    process.once('SIGINT', leave);
    process.once('SIGTERM', leave);
    for await (const record of store.follow(run.runId, { afterSeq, signal: stop.signal })) {
      items.take(record);
      if (types.length === 0 || types.includes(record.eventType)) await tell(record);
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
    for (const record of page) await tell(record);
    if (page.length < PAGE) return 0;
    after = page.at(-1)!.runSeq;
  }
};

/** Names are taken in any case; one that no event has would only show an empty list. */
function typeOf(text: string): string {
  const found = EVENT_TYPES.find((type) => type.toLowerCase() === text.toLowerCase());
  if (found) return found;
  const near = closestName(text, EVENT_TYPES);
  throw new AppError('USAGE', `There is no event type '${text}'${near ? `; did you mean '${near}'?` : '.'}`);
}

const ENDS = ['RunCompleted', 'RunFailed', 'RunCancelled'];

/** What a line says beyond its event. */
interface Words {
  readonly items: LoopItems;
  readonly places: Awaited<ReturnType<typeof planPlaces>> | undefined;
}

function show({ args, terminal }: Context, record: LedgerRecord, { items, places }: Words): void {
  const isCanonical = args.has('canonical');
  if (terminal.json) {
    for (const line of isCanonical ? canonicalView(record) : [record]) terminal.print(JSON.stringify(line));
    return;
  }
  const { runSeq, persistedAt, eventType, entity, stepId } = record;
  const payload = located(record.payload ?? {}, places?.planRef, places?.locate);
  const said = record.erased ? 'erased' : eventPhrase(eventType, payload);
  const phrase = [items.phrase(record), said].filter((words) => words).join('  ');
  const place = clean(entity ?? stepId ?? '');
  if (isCanonical) for (const { timestamp, event_type: name } of canonicalView(record)) print(timestamp, name);
  else print(persistedAt, eventType);

  function print(at: string, type: string): void {
    const text = clean(phrase, 2000);
    const { columns, symbols } = terminal;
    const isNarrow = process.stdout.isTTY && columns < 100;
    const head = isNarrow
      ? `${String(runSeq).padStart(4)} ${pad(type, columns < 80 ? 0 : 22)} ${entity === undefined ? place : placeName(entity)}`
      : `${String(runSeq).padStart(5)}  ${at.slice(11, 23)}  ${pad(type, 26)}  ${pad(place, 16)}`;
    const line = `${head}  ${text}`.trimEnd();
    // One column is left free: a terminal that wraps at once would make two lines of one.
    terminal.print(process.stdout.isTTY ? crop(line, columns - 1, symbols.more) : line);
  }
}
