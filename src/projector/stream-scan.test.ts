import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { StreamCursor } from '../store/sql/read-stream.ts';
import type { StreamSnapshot } from '../store/sql/stream-snapshot.ts';
import { compare, StreamScan } from './stream-scan.ts';

/** Transactions that write to runs and end in any order, as a database sees them. */
class ModelDatabase {
  era = 1;
  #next = 10;
  readonly #running = new Map<number, { run: number; seq: number; place: StreamCursor }[]>();
  readonly #locked = new Map<number, number>();
  readonly #last = new Map<number, StreamCursor>();
  readonly committed: StreamCursor[] = [];
  micros = 1;

  begin(): void {
    this.#running.set(this.#next++, []);
  }

  /** The run's row is locked by whoever writes first, and the place is never below the run's last one. */
  write(nth: number, run: number): void {
    const xids = [...this.#running.keys()];
    const xid = xids[nth % Math.max(1, xids.length)];
    if (xid === undefined || (this.#locked.get(run) ?? xid) !== xid) return;
    this.#locked.set(run, xid);
    const own = this.#running.get(xid)!;
    const last = own.findLast((event) => event.run === run)?.place ?? this.#last.get(run);
    const above = last?.era === this.era ? Math.max(xid, last.xid) : xid;
    const seq = (last?.runSeq ?? 0) + 1;
    own.push({ run, seq, place: { era: this.era, xid: above, runKey: run, runSeq: seq } });
  }

  end(nth: number, commit: boolean): void {
    const xids = [...this.#running.keys()];
    const xid = xids[nth % Math.max(1, xids.length)];
    if (xid === undefined) return;
    for (const { run, place } of this.#running.get(xid)!) {
      this.#locked.delete(run);
      if (!commit) continue;
      this.#last.set(run, place);
      this.committed.push(place);
    }
    this.#running.delete(xid);
  }

  /** A restored copy: another cluster, whose transaction ids begin low again. */
  restore(): void {
    if (this.#running.size > 0) return;
    this.era += 1;
    this.#next = 10;
  }

  snapshot(): StreamSnapshot {
    const inFlight = [...this.#running.keys()].sort((a, b) => a - b);
    return { era: this.era, xmin: inFlight[0] ?? this.#next, xmax: this.#next, inFlight, nowMicros: this.micros++ };
  }

  page(after: StreamCursor, size: number): { found: StreamCursor[]; next: StreamCursor | undefined } {
    const found = this.committed
      .filter((event) => compare(event, after) > 0)
      .sort(compare)
      .slice(0, size);
    return { found, next: found.length === size ? found.at(-1) : undefined };
  }
}

const action = fc.oneof(
  { weight: 3, arbitrary: fc.constant({ kind: 'begin' as const }) },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('write' as const), nth: fc.nat(9), run: fc.integer({ min: 1, max: 4 }) }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('end' as const), nth: fc.nat(9), commit: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('scan' as const), pages: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'restore' as const }) },
);

const text = ({ era, xid, runKey, runSeq }: StreamCursor) => `${era}/${xid}/${runKey}/${runSeq}`;

test('RE-1.3a discovery sees every committed event, whatever order transactions end in, and its floor hides none', () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 120 }), fc.integer({ min: 1, max: 5 }), (actions, size) => {
      const database = new ModelDatabase();
      const scan = new StreamScan(1000);
      const seen = new Set<string>();
      const look = (pages: number) => {
        scan.begin(database.snapshot());
        for (let i = 0; i < pages && scan.next; i++) {
          const { found, next } = database.page(scan.next, size);
          for (const place of found) seen.add(text(place));
          scan.advance(next);
        }
      };
      for (const step of actions) {
        if (step.kind === 'begin') database.begin();
        if (step.kind === 'write') database.write(step.nth, step.run);
        if (step.kind === 'end') database.end(step.nth, step.commit);
        if (step.kind === 'restore') database.restore();
        if (step.kind === 'scan') look(step.pages);
        const floor = scan.floor;
        if (floor)
          for (const place of database.committed) if (compare(place, floor) < 0) expect(seen).toContain(text(place));
      }
      // Two looks: the first may finish a pass that began before the last commits.
      look(Number.POSITIVE_INFINITY);
      look(Number.POSITIVE_INFINITY);
      expect([...seen].sort()).toEqual(database.committed.map(text).sort());
    }),
    { numRuns: 2000 },
  );
});

test('a transaction that stays open does not make every look begin at its place again', () => {
  const database = new ModelDatabase();
  const scan = new StreamScan(1000);
  database.begin();
  database.begin();
  database.write(1, 1);
  database.end(1, true);
  scan.begin(database.snapshot());
  scan.advance(undefined);
  const held = scan.floor;
  for (let i = 0; i < 5; i++) {
    database.begin();
    database.write(1, 2 + i);
    database.end(1, true);
    scan.begin(database.snapshot());
    expect(scan.next?.xid).toBe(12 + i);
    scan.advance(undefined);
    expect(scan.floor).toEqual(held);
  }
  database.write(0, 9);
  database.end(0, true);
  scan.begin(database.snapshot());
  expect(scan.next?.xid).toBe(10);
});

test('without news there is nothing to read, and after a while a look begins at the shared cursor', () => {
  const scan = new StreamScan(1);
  const quiet = { era: 1, xmin: 5, xmax: 5, inFlight: [], nowMicros: 0 };
  expect(scan.needsCursor(quiet)).toBe(true);
  scan.begin(quiet, { era: 1, xid: 3, runKey: 0, runSeq: 0 });
  expect(scan.next).toEqual({ era: 1, xid: 3, runKey: 0, runSeq: 0 });
  scan.advance(undefined);
  scan.begin({ ...quiet, nowMicros: 900 });
  expect(scan.next).toBeUndefined();
  expect(scan.needsCursor({ ...quiet, nowMicros: 1001 })).toBe(true);
});

test('transaction ids that went back, as after losing the last ones, make a look begin at the shared cursor', () => {
  const scan = new StreamScan(1000);
  scan.begin({ era: 1, xmin: 50, xmax: 50, inFlight: [], nowMicros: 0 });
  scan.advance(undefined);
  expect(scan.needsCursor({ era: 1, xmin: 50, xmax: 50, inFlight: [], nowMicros: 1 })).toBe(false);
  expect(scan.needsCursor({ era: 1, xmin: 40, xmax: 40, inFlight: [], nowMicros: 1 })).toBe(true);
});
