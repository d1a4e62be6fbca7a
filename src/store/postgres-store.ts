import type { Alert } from '../contracts/alerts.ts';
import { CATALOGUE, EVENT_TYPES, eventRow } from '../contracts/catalogue.ts';
import type { AppendReceipt, LedgerRecord, RunEventWrite } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import {
  checkEventQuery,
  checkNewRun,
  checkProviderRef,
  checkSequence,
  checkWindowQuery,
  isStorableText,
} from './check-arguments.ts';
import { erase } from './erase.ts';
import { followRun } from './follow-run.ts';
import { GroupCommit } from './group-commit.ts';
import { type PreparedEvent, prepareEvent } from './prepared-event.ts';
import { type ProjectionStore, projectionStore } from './projection-store.ts';
import { type Accepted, receiptsOf } from './receipts-of.ts';
import { requestKey, triggerKey } from './run-keys.ts';
import { listAlerts, raiseAlert } from './sql/alerts.ts';
import { appendEvents, type CallAnswer, readAnswers } from './sql/append-events.ts';
import { createRuns, type RunInsert } from './sql/create-runs.ts';
import type { PreparedCall } from './sql/encode-batch.ts';
import { findRunByProvider, findRuns, linkProvider, type ProviderRef, type RunRow } from './sql/find-run.ts';
import { listRuns, type RunQuery } from './sql/list-runs.ts';
import { checkSchema, migrate } from './sql/migrate.ts';
import { Postgres, type PostgresOptions } from './sql/postgres.ts';
import { type RunIdentity, readRunEvents, readRunEventsBySeq } from './sql/read-events.ts';
import { readStream, readWindow, type StreamCursor, type StreamEvent } from './sql/read-stream.ts';
import { loadSnapshot, saveSnapshot } from './sql/snapshots.ts';
import {
  appendTaskLines,
  type NewTaskLine,
  readTaskLines,
  type TaskLine,
  type TaskLineCursor,
} from './sql/task-lines.ts';
import type {
  AppendOptions,
  AppendResult,
  CreatedRun,
  EraseRequest,
  EventQuery,
  NewRun,
  SavedSnapshot,
  Store,
  WindowQuery,
} from './store.ts';
import { WakeUp } from './wake-up.ts';
import type { WorkStore } from './work.ts';
import { PostgresWorkSignals, type WorkSignals } from './work-signals.ts';
import { PostgresWorkStore } from './work-store.ts';

export interface PostgresStoreOptions extends PostgresOptions {
  /** Bring the schema up to date on opening. Otherwise an old schema is refused. */
  readonly migrate?: boolean;
  /** Limit of one event's payload; 256 KiB by default. */
  readonly maxEventBytes?: number;
  /** Appends under way at once. */
  readonly appendConnections?: number;
}

const DEFAULT_LIMIT = 1000;
const MAX_LIMIT = 10_000;
const MAX_EVENTS_PER_CALL = 10_000;
const MAX_CALL_BYTES = 64 * 1024 * 1024;
const MAX_BATCH_EVENTS = 256;
/** Runs whose identity is remembered. It never changes, so forgetting costs a look-up and nothing else. */
const MAX_CACHED_RUNS = 20_000;

/** The append authority and its readers on one Postgres. */
export class PostgresStore implements Store {
  readonly postgres: Postgres;
  readonly projections: ProjectionStore;
  readonly work: WorkStore;
  readonly workSignals: WorkSignals;
  readonly #commits: GroupCommit<PreparedCall, CallAnswer>;
  readonly #wakeUp: WakeUp;
  readonly #maxEventBytes: number;
  readonly #runs = new Map<string, RunIdentity>();

  private constructor(postgres: Postgres, options: PostgresStoreOptions) {
    this.postgres = postgres;
    this.projections = projectionStore(postgres);
    this.#maxEventBytes = options.maxEventBytes ?? 256 * 1024;
    this.#wakeUp = new WakeUp(postgres);
    this.workSignals = new PostgresWorkSignals(postgres);
    this.work = new PostgresWorkStore(postgres, {
      connections: options.appendConnections ?? 2,
      prepare: (event, as) => this.#prepare(event, { as }),
      newRun: (run) => this.#newRun(run),
      existing: (run, runId) => this.#existing(run, runId),
      identityOf: (runId) => this.#need(runId),
      remember: (run) => this.#remember(run),
      changed: (runKey) => this.#wakeUp.changed(runKey),
    });
    this.#commits = new GroupCommit({
      maxInFlight: options.appendConnections ?? 2,
      maxEvents: MAX_BATCH_EVENTS,
      write: (calls) => appendEvents(postgres, calls),
    });
  }

  static async open(options: PostgresStoreOptions): Promise<PostgresStore> {
    const postgres = new Postgres(options);
    try {
      if (options.migrate) await migrate(postgres, options.onWarning);
      else await checkSchema(postgres);
    } catch (error) {
      await postgres.close();
      throw error;
    }
    return new PostgresStore(postgres, options);
  }

  #newRun(run: NewRun): RunInsert {
    checkNewRun(run);
    const events = (run.events ?? []).map((event) => this.#prepare(event, { as: 'control' }));
    checkCallSize(events);
    const identity = events.map(({ event }) => identityProblem(run, event)).find((problem) => problem);
    if (identity) throw identity;
    return {
      runId: run.runId,
      tenantId: run.tenantId,
      projectId: run.projectId,
      environmentId: run.environmentId,
      planId: run.planId,
      planVersion: run.planVersion,
      requestKey: run.runRequestId === undefined ? null : requestKey(run, run.runRequestId),
      triggerKey: triggerKey(run),
      triggerType: run.trigger?.type ?? null,
      triggerRef: run.trigger?.ref ?? null,
      parentRunId: run.parentRunId ?? null,
      retryOf: run.retryOf ?? null,
      engine: run.engine ?? 'native',
      events,
    };
  }

  async createRun(run: NewRun): Promise<CreatedRun> {
    const insert = this.#newRun(run);
    const { events } = insert;
    const { inserted, row } = await createRuns(this.postgres, [insert]);
    const [made] = inserted;
    if (!made) throw new AppError('INTERNAL', 'The database did not answer for the new run');
    if (!made.created) return this.#existing(run, made.runId);
    const [answer] = events.length > 0 ? readAnswers([{ runKey: made.runKey, events }], row) : [];
    if (answer && !answer.ok) throw answer.error;
    this.#remember({ ...run, runKey: made.runKey });
    return { runId: made.runId, created: true };
  }

  /** A run of that id must be the same run; one found by request or trigger may have another id. */
  async #existing(run: NewRun, runId: string): Promise<CreatedRun> {
    const found = await this.findRun(runId);
    const same = found && (runId !== run.runId || IDENTITY.every((field) => found[field] === run[field]));
    if (!same) throw new AppError('RUN_EXISTS', `Run ${runId} exists already and is another run`, { runId });
    return { runId, created: false };
  }

  async append(events: readonly RunEventWrite[], options: AppendOptions): Promise<AppendResult> {
    if (events.length === 0) return { ok: true, receipts: [], stored: [] };
    let prepared: PreparedEvent[];
    let run: RunIdentity | undefined;
    try {
      if (events.length > MAX_EVENTS_PER_CALL) {
        throw new AppError(
          'EVENT_TOO_LARGE',
          `${events.length} events in one call; ${MAX_EVENTS_PER_CALL} are allowed`,
        );
      }
      checkSequence('expectedHead', options.expectedHead);
      prepared = events.map((event) => this.#prepare(event, options));
      checkCallSize(prepared);
      const runId = (events[0] as RunEventWrite).runId;
      run = this.#runs.get(runId) ?? (await this.findRun(runId));
      if (!run) throw new AppError('RUN_NOT_FOUND', `There is no run ${runId}`, { runId });
      for (const event of events) {
        const problem = identityProblem(run, event);
        if (problem) throw problem;
      }
    } catch (error) {
      if (error instanceof AppError && error.code !== 'STORE_UNAVAILABLE') return { ok: false, error };
      throw error;
    }
    const call = { runKey: run.runKey, events: prepared, expectedHead: options.expectedHead };
    const answer = await this.#commits.append(call);
    if (!answer.ok) return answer;
    if (answer.fresh.includes(false)) return this.#withStored(run, prepared, answer);
    this.#wakeUp.changed(run.runKey);
    return { ok: true, receipts: receiptsOf(prepared, answer), stored: [] };
  }

  async appendMany(
    calls: readonly { events: readonly RunEventWrite[]; options: AppendOptions }[],
  ): Promise<AppendResult[]> {
    return Promise.all(calls.map((call) => this.append(call.events, call.options)));
  }

  /** Some events were there before: their stored records are read, since the producer must go on with those. */
  async #withStored(run: RunIdentity, prepared: readonly PreparedEvent[], answer: Accepted): Promise<AppendResult> {
    if (answer.fresh.includes(true)) this.#wakeUp.changed(run.runKey);
    const old = new Set(answer.seqs.filter((_, i) => !answer.fresh[i]));
    const stored = await readRunEventsBySeq(this.postgres, run, [...old]);
    const idOf = new Map(stored.map((record) => [record.runSeq, record.eventId]));
    return { ok: true, receipts: receiptsOf(prepared, answer, idOf), stored };
  }

  async findRun(runId: string): Promise<RunRow | undefined> {
    const [run] = isStorableText(runId) ? await findRuns(this.postgres, [runId]) : [];
    if (run) this.#remember(run);
    return run;
  }

  /** Runs, newest first. */
  async listRuns(query: Partial<RunQuery> = {}): Promise<RunRow[]> {
    for (const text of [query.tenantId, query.planId, query.parentRunId, query.idPrefix]) {
      if (text !== undefined && !isStorableText(text)) return [];
    }
    return listRuns(this.postgres, { ...query, limit: pageLimit(query.limit) });
  }

  async findRunByProvider(ref: ProviderRef): Promise<RunRow | undefined> {
    checkProviderRef(ref);
    return findRunByProvider(this.postgres, ref);
  }

  async linkProvider(runId: string, ref: ProviderRef): Promise<void> {
    checkProviderRef(ref);
    const run = await this.#need(runId);
    if (!(await linkProvider(this.postgres, run.runKey, ref))) {
      throw new AppError(
        'RUN_EXISTS',
        `${ref.provider} run ${ref.workflowId}/${ref.providerRunId} belongs to another run`,
        { ...ref },
      );
    }
  }

  async readEvents(runId: string, query: EventQuery = {}): Promise<LedgerRecord[]> {
    checkEventQuery(query);
    const run = await this.#need(runId);
    return readRunEvents(this.postgres, run, {
      afterSeq: query.afterSeq,
      throughSeq: query.throughSeq,
      types: query.types && codesOf(query.types),
      entity: query.entity,
      limit: pageLimit(query.limit),
    });
  }

  async readWindow(query: WindowQuery): Promise<LedgerRecord[]> {
    checkWindowQuery(query);
    return readWindow(this.postgres, {
      from: query.from,
      to: query.to,
      types: codesOf(query.types ?? EVENT_TYPES),
      tenantId: query.tenantId ?? null,
      after: query.after,
      limit: pageLimit(query.limit),
    });
  }

  async readStream(after: StreamCursor | undefined, limit?: number): Promise<StreamEvent[]> {
    return readStream(this.postgres, after, pageLimit(limit));
  }

  async *follow(runId: string, options: { afterSeq?: number; signal?: AbortSignal } = {}): AsyncIterable<LedgerRecord> {
    checkEventQuery(options);
    const run = await this.#need(runId);
    yield* followRun(this.postgres, this.#wakeUp, run, options);
  }

  async loadSnapshot(runId: string): Promise<SavedSnapshot | undefined> {
    return loadSnapshot(this.postgres, (await this.#need(runId)).runKey);
  }

  async saveSnapshot(runId: string, saved: SavedSnapshot): Promise<boolean> {
    return saveSnapshot(this.postgres, (await this.#need(runId)).runKey, saved);
  }

  /** Stores what tasks printed. `writer` names the process, which numbers its lines and stores them in order. */
  appendTaskLines(writer: string, lines: readonly NewTaskLine[]): Promise<void> {
    return appendTaskLines(this.postgres, writer, lines);
  }

  /** What tasks of a run printed and the cursor has not seen, by time. */
  async readTaskLines(runId: string, after: TaskLineCursor = {}, limit?: number): Promise<TaskLine[]> {
    return readTaskLines(this.postgres, await this.#need(runId), after, pageLimit(limit));
  }

  async raiseAlert(alert: Omit<Alert, 'raisedAt'>): Promise<boolean> {
    return raiseAlert(this.postgres, alert);
  }

  async listAlerts(query: { runId?: string; code?: string; limit?: number } = {}): Promise<Alert[]> {
    return listAlerts(this.postgres, { ...query, limit: pageLimit(query.limit) });
  }

  async erase(runId: string, request: EraseRequest): Promise<AppendReceipt> {
    for (const runSeq of request.runSeqs) checkSequence('runSeqs', runSeq, 1);
    const run = await this.#need(runId);
    const receipt = await erase(this.postgres, run, request, (event) => this.#prepare(event, { as: 'control' }));
    this.#wakeUp.changed(run.runKey);
    return receipt;
  }

  async close(): Promise<void> {
    await this.#wakeUp.close();
    await this.workSignals.close();
    await this.postgres.close();
  }

  #prepare(event: RunEventWrite, options: AppendOptions): PreparedEvent {
    return prepareEvent(event, {
      as: options.as,
      maxEventBytes: this.#maxEventBytes,
      imported: options.imported ?? false,
    });
  }

  async #need(runId: string): Promise<RunIdentity> {
    const run = this.#runs.get(runId) ?? (await this.findRun(runId));
    if (!run) throw new AppError('RUN_NOT_FOUND', `There is no run ${runId}`, { runId });
    return run;
  }

  #remember(run: RunIdentity): void {
    if (this.#runs.size >= MAX_CACHED_RUNS) this.#runs.delete(this.#runs.keys().next().value as string);
    const { runKey, runId, tenantId, projectId, environmentId, planId, planVersion } = run;
    this.#runs.set(runId, { runKey, runId, tenantId, projectId, environmentId, planId, planVersion });
  }
}

const IDENTITY = ['runId', 'tenantId', 'projectId', 'environmentId', 'planId', 'planVersion'] as const;

/** Beyond this a call would not fit into a message to the database; each event has its own limit besides. */
function checkCallSize(events: readonly PreparedEvent[]): void {
  const bytes = events.reduce((sum, { payload }) => sum + (payload?.length ?? 0), 0);
  if (bytes <= MAX_CALL_BYTES) return;
  throw new AppError('EVENT_TOO_LARGE', `The events of one call have ${bytes} bytes; ${MAX_CALL_BYTES} are allowed`, {
    bytes,
    limit: MAX_CALL_BYTES,
  });
}

/** Events of a run share its scope and its plan; rows hold neither, so a difference would be lost. */
function identityProblem(run: Omit<RunIdentity, 'runKey'>, event: RunEventWrite): AppError | undefined {
  // Written out, because it runs for every event.
  if (
    run.runId === event.runId &&
    run.tenantId === event.tenantId &&
    run.projectId === event.projectId &&
    run.environmentId === event.environmentId &&
    run.planId === event.planId &&
    run.planVersion === event.planVersion
  ) {
    return undefined;
  }
  const wrong = IDENTITY.filter((field) => run[field] !== event[field]);
  const problems = wrong.map((field) => ({
    path: `/${field}`,
    message: `is '${event[field]}', but the run has '${run[field]}'`,
  }));
  return new AppError(
    'SCHEMA_VALIDATION_FAILED',
    `${event.eventType} does not fit its run: ${problems.map((p) => `${p.path} ${p.message}`).join('; ')}`,
    { problems },
  );
}

function codesOf(types: readonly string[]): number[] {
  return types.map((type) => {
    if (!eventRow(type))
      throw new AppError('SCHEMA_VALIDATION_FAILED', `'${type}' is not a type of the catalogue`, { type });
    return CATALOGUE[type as keyof typeof CATALOGUE].code;
  });
}

function pageLimit(limit = DEFAULT_LIMIT): number {
  if (!Number.isInteger(limit) || limit < 1)
    throw new AppError('USAGE', `A limit must be a whole number from 1 on, not ${limit}`);
  return Math.min(limit, MAX_LIMIT);
}
