import { CATALOGUE, type Emitter, type EventType } from '../contracts/catalogue.ts';
import type { LedgerRecord, RunEventWrite } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import type { EngineName } from '../contracts/values.ts';
import { GroupCommit } from './group-commit.ts';
import type { PreparedEvent } from './prepared-event.ts';
import { receiptsOf } from './receipts-of.ts';
import {
  type CommitAnswer,
  commitWork,
  type Execute,
  type PreparedCommit,
  type ReceiptChange,
} from './sql/commit-work.ts';
import { type RunInsert, type RunStart, type StartedRun, startRuns } from './sql/create-runs.ts';
import type { Postgres, Statement } from './sql/postgres.ts';
import { type Reader, type RunIdentity, readRunEvents, readRunEventsBySeq } from './sql/read-events.ts';
import {
  burnWork,
  checkIn,
  claimUnit,
  claimWork,
  discardWork,
  findPlan,
  findPlanById,
  findReceipt,
  listWork,
  lockRun,
  openChildren,
  overdueRuns,
  putPlan,
  releaseOwners,
  releaseWork,
  renewWork,
  repairWork,
  wakeWork,
} from './sql/work.ts';
import type { CreatedRun, NewRun } from './store.ts';
import type {
  ClaimedUnit,
  ClaimOptions,
  CommitResult,
  Lease,
  NewWork,
  Receipt,
  RepairRequest,
  StoredPlan,
  UnitClaim,
  WorkCommit,
  WorkRow,
  WorkStore,
} from './work.ts';

/** What the store of the log lends to the verbs of work. */
interface LogParts {
  readonly connections: number;
  readonly prepare: (event: RunEventWrite, as: Emitter) => PreparedEvent;
  readonly newRun: (run: NewRun) => RunInsert;
  readonly existing: (run: NewRun, runId: string) => Promise<CreatedRun>;
  readonly identityOf: (runId: string) => Promise<RunIdentity>;
  readonly remember: (run: RunIdentity) => void;
  readonly changed: (runKey: number) => void;
}

const MAX_BATCH_EVENTS = 1024;
const PAGE = 2000;
const DEFAULT_LEASE_MS = 30_000;

/** The verbs of engines and workers on one Postgres. Concurrent calls of different runs share a transaction. */
export class PostgresWorkStore implements WorkStore {
  readonly #postgres: Postgres;
  readonly #log: LogParts;
  readonly #commits: GroupCommit<PreparedCommit, CommitAnswer>;
  readonly #starts: GroupCommit<RunStart & { readonly runKey: number }, StartedRun>;
  #starting = 0;

  constructor(postgres: Postgres, log: LogParts) {
    this.#postgres = postgres;
    this.#log = log;
    this.#commits = new GroupCommit({
      maxInFlight: log.connections,
      maxEvents: MAX_BATCH_EVENTS,
      write: (calls) => this.#write(calls),
    });
    this.#starts = new GroupCommit({
      maxInFlight: log.connections,
      maxEvents: MAX_BATCH_EVENTS,
      write: (runs) => startRuns(postgres, runs),
    });
  }

  async #write(calls: readonly PreparedCommit[]): Promise<CommitAnswer[]> {
    for (;;) {
      try {
        return await commitWork(this.#execute(calls.length > 1), calls, { isAlone: true });
      } catch (error) {
        // Somebody attempted the same effect at the same moment: asked again, the later one is refused by its receipt.
        if (calls.length > 1 || (error as { code?: string }).code !== 'RL003') throw error;
      }
    }
  }

  #execute(isBatch: boolean): Execute {
    // A deadlock is answered by splitting the batch, not by repeating it.
    return (statement, values) => this.#postgres.query(statement, values, { contention: isBatch ? 'throw' : 'retry' });
  }

  async startRun(
    run: NewRun,
    work: readonly NewWork[],
  ): Promise<CreatedRun & { runKey: number; leases: readonly Lease[] }> {
    this.#starting += 1;
    const made = await this.#starts.append({ ...this.#log.newRun(run), work, runKey: -this.#starting });
    if (!made.created) {
      const found = await this.#log.existing(run, made.runId);
      return { ...found, runKey: made.runKey, leases: [] };
    }
    if (made.answer && !made.answer.ok) throw made.answer.error;
    this.#log.remember({ ...run, runKey: made.runKey });
    return { runId: made.runId, created: true, runKey: made.runKey, leases: made.leases };
  }

  async commit(commit: WorkCommit): Promise<CommitResult> {
    const prepared = this.#prepare(commit);
    return this.#result(commit, prepared, await this.#commits.append(prepared));
  }

  #prepare(commit: WorkCommit): PreparedCommit {
    const events = (commit.opening ?? []).map((event) => this.#log.prepare(event, emitterOf(event)));
    for (const step of commit.ahead ?? []) {
      for (const event of step.facts) events.push(this.#log.prepare(event, 'worker'));
      for (const event of step.decision) events.push(this.#log.prepare(event, emitterOf(event)));
    }
    for (const event of commit.facts ?? []) events.push(this.#log.prepare(event, 'worker'));
    for (const event of commit.decision ?? []) events.push(this.#log.prepare(event, emitterOf(event)));
    if (events.length === 0) throw new AppError('INTERNAL', 'A commit needs at least one event');
    return {
      runKey: commit.run.runKey,
      events,
      expectedHead: commit.expectedHead,
      owner: commit.owner,
      tenantId: commit.run.tenantId,
      leaseMs: commit.leaseMs ?? DEFAULT_LEASE_MS,
      work: commit.work ?? [],
      loops: commit.loops ?? [],
      receipts: receiptChanges([...(commit.ahead ?? []).flatMap((step) => step.facts), ...(commit.facts ?? [])]),
    };
  }

  async #result(
    commit: WorkCommit,
    prepared: PreparedCommit,
    answer: CommitAnswer,
    reader: Reader = this.#postgres,
  ): Promise<CommitResult> {
    if (!answer.ok) {
      const { code } = answer.error;
      const reason = answer.reason ?? (code === 'HEAD_MOVED' ? 'HEAD_MOVED' : 'REFUSED');
      const missing = commit.seenSeq === undefined ? [] : await this.#after(reader, commit.run, commit.seenSeq);
      return { ok: false, reason, error: answer.error, missing };
    }
    const { leases = [], handouts = [] } = answer;
    this.#log.changed(commit.run.runKey);
    if (!answer.fresh.includes(false)) {
      return { ok: true, receipts: receiptsOf(prepared.events, answer), stored: [], leases, handouts };
    }
    const old = answer.seqs.filter((_, i) => !answer.fresh[i]);
    const stored = await readRunEventsBySeq(this.#postgres, commit.run, [...new Set(old)]);
    const idOf = new Map(stored.map((record) => [record.runSeq, record.eventId]));
    return { ok: true, receipts: receiptsOf(prepared.events, answer, idOf), stored, leases, handouts };
  }

  async #after(reader: Reader, run: RunIdentity, afterSeq: number): Promise<LedgerRecord[]> {
    const records: LedgerRecord[] = [];
    for (;;) {
      const page = await readRunEvents(reader, run, {
        afterSeq: records.at(-1)?.runSeq ?? afterSeq,
        limit: PAGE,
      });
      records.push(...page);
      if (page.length < PAGE) return records;
    }
  }

  async locked<T>(
    run: RunIdentity,
    afterSeq: number,
    work: (missing: readonly LedgerRecord[], commit: (commit: WorkCommit) => Promise<CommitResult>) => Promise<T>,
  ): Promise<T> {
    return this.#postgres.transaction(async (client) => {
      await lockRun(client, run.runKey);
      const execute: Execute = async <Row>(statement: Statement, values: unknown[] = []) =>
        (await client.query<Row>({ ...statement, values })).rows;
      const reader: Reader = { query: execute };
      const missing = await this.#after(reader, run, afterSeq);
      return work(missing, async (commit) => {
        const prepared = this.#prepare(commit);
        const [answer] = await commitWork(execute, [prepared], { isAlone: false });
        if (!answer!.ok) return this.#result(commit, prepared, answer!, reader);
        const { leases = [], handouts = [] } = answer!;
        return { ok: true, receipts: receiptsOf(prepared.events, answer!), stored: [], leases, handouts };
      });
    });
  }

  async claim(owner: string, { limit, leaseMs, engine = 'native', scope }: ClaimOptions): Promise<ClaimedUnit[]> {
    const claimed = await claimWork(this.#postgres, { owner, limit, leaseMs, engine, scope });
    // Who takes a unit reads the log of its run next, and need not look up which one that is.
    for (const { run } of claimed) this.#log.remember(run);
    return claimed.map(({ unit }) => unit);
  }

  checkIn(owner: string, hostTag: string): Promise<string[]> {
    return checkIn(this.#postgres, owner, hostTag);
  }

  async releaseOwners(owners: readonly string[]): Promise<number> {
    return owners.length === 0 ? 0 : releaseOwners(this.#postgres, owners);
  }

  claimUnit(runId: string, unit: string, owner: string, leaseMs: number): Promise<UnitClaim> {
    return claimUnit(this.#postgres, { runId, unit, owner, leaseMs });
  }

  overdue(engine: EngineName, options: { olderThanMs: number; limit: number }): Promise<string[]> {
    return overdueRuns(this.#postgres, engine, options);
  }

  async renew(
    leases: readonly (Lease & { readonly runKey: number })[],
    leaseMs: number,
  ): Promise<{ held: boolean; stop: boolean }[]> {
    return leases.length === 0 ? [] : renewWork(this.#postgres, leases, leaseMs);
  }

  async release(
    leases: readonly (Lease & { readonly runKey: number })[],
    options: { delayMs?: number; error?: string } = {},
  ): Promise<void> {
    if (leases.length > 0) await releaseWork(this.#postgres, leases, options.delayMs ?? 0, options.error);
  }

  discard(lease: Lease & { readonly runKey: number }): Promise<boolean> {
    return discardWork(this.#postgres, lease);
  }

  burn(lease: Lease & { readonly runKey: number }, leaseMs: number): Promise<number | undefined> {
    return burnWork(this.#postgres, lease, leaseMs);
  }

  wake(runId: string, unit: string): Promise<boolean> {
    return wakeWork(this.#postgres, runId, unit);
  }

  async repair(runId: string, request: RepairRequest): Promise<number | undefined> {
    return repairWork(this.#postgres, (await this.#log.identityOf(runId)).runKey, request);
  }

  async list(runId: string): Promise<WorkRow[]> {
    return listWork(this.#postgres, (await this.#log.identityOf(runId)).runKey);
  }

  findReceipt(tenantId: string, key: string): Promise<Receipt | undefined> {
    return findReceipt(this.#postgres, tenantId, key);
  }

  openChildren(runId: string): Promise<string[]> {
    return openChildren(this.#postgres, runId);
  }

  putPlan(plan: StoredPlan): Promise<void> {
    return putPlan(this.#postgres, plan);
  }

  findPlan(sha256: string): Promise<StoredPlan | undefined> {
    return findPlan(this.#postgres, sha256);
  }

  findPlanById(planId: string): Promise<StoredPlan | undefined> {
    return findPlanById(this.#postgres, planId);
  }
}

/** A decision speaks for whoever the catalogue names: control plane where it may, else authorization or planner. */
function emitterOf({ eventType }: RunEventWrite): Emitter {
  const emitters: readonly Emitter[] = Object.hasOwn(CATALOGUE, eventType)
    ? CATALOGUE[eventType as EventType].emitters
    : ['control'];
  if (emitters.includes('control')) return 'control';
  return emitters.find((emitter) => emitter !== 'worker') ?? 'control';
}

const RECEIPT_OPS: Readonly<Record<string, ReceiptChange['op']>> = {
  EffectAttempted: 1,
  EffectSucceeded: 2,
  EffectFailed: 3,
  EffectUnknown: 4,
};

function receiptChanges(events: readonly RunEventWrite[]): ReceiptChange[] {
  const changes: ReceiptChange[] = [];
  for (const { eventType, entity, payload } of events) {
    const op = RECEIPT_OPS[eventType];
    if (op === undefined || entity === undefined || payload === undefined) continue;
    const settledBy = payload['settledBy'];
    changes.push({
      op,
      key: String(payload['key']),
      path: entity.replace(/@\d+(\/try:\d+)?$/, ''),
      settledBy: typeof settledBy === 'string' ? settledBy : undefined,
      details: JSON.stringify(payload),
    });
  }
  return changes;
}
