import { eventTypeOfCode } from '../../contracts/catalogue.ts';
import { microsToText } from '../../lib/time.ts';
import type { Connection } from './postgres.ts';
import { placeOf } from './read-events.ts';

/** From where on a run is read. */
export interface TailRequest {
  readonly runKey: number;
  readonly afterSeq: number;
}

interface TailRow {
  readonly key: string;
  readonly seq: string;
  readonly us: string;
  readonly type: number;
  readonly eventId: string;
  readonly path: string;
  readonly engine: number;
  readonly logical: number;
  readonly emitted: string;
  readonly erased: boolean;
  readonly payload: string | null;
}

/** An event as a fold reads it: nothing that only proves it, and a payload that is parsed when somebody asks for it. */
export class TailEvent {
  readonly runSeq: number;
  readonly micros: number;
  readonly eventType: string;
  readonly eventId: string;
  readonly engineAttemptId: number;
  readonly logicalAttemptId: number;
  readonly emittedAt: string;
  readonly erased: boolean;
  readonly stepId?: string;
  readonly entity?: string;
  readonly #text: string | null;
  #payload: Record<string, unknown> | undefined;

  constructor(row: TailRow) {
    this.runSeq = Number(row.seq);
    this.micros = Number(row.us);
    this.eventType = eventTypeOfCode(row.type);
    this.eventId = row.eventId;
    this.engineAttemptId = row.engine;
    this.logicalAttemptId = row.logical;
    this.emittedAt = row.emitted;
    this.erased = row.erased;
    const { stepId, entity } = placeOf(this.eventType, row.path);
    if (stepId !== undefined) this.stepId = stepId;
    if (entity !== undefined) this.entity = entity;
    this.#text = row.payload;
  }

  get payload(): Record<string, unknown> | undefined {
    if (this.#payload === undefined && this.#text !== null) this.#payload = JSON.parse(this.#text);
    return this.#payload;
  }

  get persistedAt(): string {
    return microsToText(this.micros);
  }
}

const PAGE_EVENTS = 2000;
const PAGE_BYTES = 8 * 1024 * 1024;

// The first event always fits, so that reading never stands still. Sizes are known without fetching the payloads.
const READ = {
  name: 'read_tails',
  text: `
    select key, seq, us, type, "eventId", path, engine, logical, emitted, erased, payload from (
      select u.key::text as key, x.run_seq::text as seq, (extract(epoch from x.persisted_at) * 1000000)::bigint::text as us, x.type,
             x.event_id as "eventId", x.path, x.engine_attempt as engine, x.logical_attempt as logical, x.emitted_at as emitted,
             x.salt is null as erased, x.payload, x.bytes, u.ord, x.run_seq,
             sum(x.bytes) over (order by u.ord, x.run_seq) as total
        from unnest($1::bigint[], $2::bigint[]) with ordinality u(key, after, ord)
        cross join lateral (
          select e.*, coalesce(octet_length(e.payload), 0) as bytes from runledger.run_events e
           where e.run_key = u.key and e.run_seq > u.after order by e.run_seq limit ${PAGE_EVENTS}) x
       order by u.ord, x.run_seq limit ${PAGE_EVENTS}) p
     where total - bytes < ${PAGE_BYTES} order by ord, run_seq`,
};

/** One page over several runs, by run in the order of the requests and by runSeq within each. */
export async function readTails(
  client: Connection,
  requests: readonly TailRequest[],
): Promise<Map<number, TailEvent[]>> {
  const { rows } = await client.query<TailRow>({
    ...READ,
    values: [`{${requests.map((r) => r.runKey).join(',')}}`, `{${requests.map((r) => r.afterSeq).join(',')}}`],
  });
  const byRun = new Map<number, TailEvent[]>();
  for (const row of rows) {
    const key = Number(row.key);
    const events = byRun.get(key);
    if (events) events.push(new TailEvent(row));
    else byRun.set(key, [new TailEvent(row)]);
  }
  return byRun;
}
