import { setTimeout as sleep } from 'node:timers/promises';
import { ApplicationFailure, Context } from '@temporalio/activity';
import {
  AppError,
  doUnit,
  faultPoint,
  HeldUnit,
  isTerminal,
  type LeaseKeeper,
  type LedgerEngine,
  mustStop,
  PlanUnreadable,
  type UnitPorts,
} from '../../exports/engine.ts';
import { HandedUnits } from './handed-units.ts';
import { type TemporalSettings, workflowIdOf } from './options.ts';
import type { Answer, CancelRequest, LookRequest, OpenUnit, RunActivities, UnitRequest } from './protocol.ts';

/** One answer names at most so many units: a payload has a limit. */
const MAX_UNITS = 500;
/** A unit that is due sooner is waited for in the activity; a later one gets a timer of the workflow. */
const SHORT_WAIT_MS = 1500;
/** How soon a unit is asked for again that somebody else holds. */
const LEASED_POLL_MS = 250;
const MAX_LINKED = 5000;
const LONGEST_BEAT_MS = 2000;
/** So many of the units that follow are handed over with their fence. */
const MAX_HANDED_OVER = 100;
const RENEW_SOON_MS = 200;

type RunView = Awaited<ReturnType<UnitPorts['views']['get']>>;

export interface ActivityPorts extends Omit<UnitPorts, 'room' | 'scheduled' | 'ended'> {
  readonly settings: TemporalSettings;
  readonly engine: LedgerEngine;
  readonly leases: LeaseKeeper;
  readonly onError: (error: unknown, what: string) => void;
}

/**
 * The activities of a run. Temporal says when a unit is tried; whether it is to be done, and what follows, is said by the
 * store: an activity takes the lease of its unit, and what it stores is refused without it.
 */
export class TemporalActivities implements RunActivities {
  readonly #ports: ActivityPorts;
  readonly #linked = new Set<string>();
  readonly #handed = new HandedUnits();

  constructor(ports: ActivityPorts) {
    this.#ports = ports;
  }

  /** By the names that the workflow calls. */
  byName(): RunActivities {
    return {
      doUnit: (request) => this.doUnit(request),
      look: (request) => this.look(request),
      cancelRun: (request) => this.cancelRun(request),
    };
  }

  async doUnit(request: UnitRequest): Promise<Answer> {
    const context = Context.current();
    const every = Math.min(this.#ports.settings.workflow.heartbeatMs / 3, LONGEST_BEAT_MS);
    const beat = setInterval(() => context.heartbeat(), every);
    try {
      await this.#link(request.runId, context);
      return await this.#doUnit(request, context);
    } catch (error) {
      throw this.#failure(error, request.unit);
    } finally {
      clearInterval(beat);
    }
  }

  async #doUnit(request: UnitRequest, context: Context): Promise<Answer> {
    const { runId, unit, tried = 0, execution } = request;
    const { work, owner, leaseMs } = this.#ports;
    const engine = { attempt: context.info.attempt + tried, execution };
    const handed = engine.attempt === 1 ? this.#handed.take(runId, unit) : undefined;
    if (handed) return this.#run(new HeldUnit(handed, performance.now(), engine), context);
    // An activity of the execution before this one may run it, under a lease that has no time yet.
    if (tried > 0) await sleep(2 * RENEW_SOON_MS);
    for (;;) {
      const from = performance.now();
      const claim = await work.claimUnit(runId, unit, owner, leaseMs);
      await faultPoint('temporal.after-claim');
      if (claim.state === 'claimed') {
        const held = new HeldUnit(claim.unit, from + leaseMs, engine);
        if (claim.unit.stop) held.stop();
        return this.#run(held, context);
      }
      // It was done before, perhaps by an attempt whose answer was lost: the rows say what is open now.
      if (claim.state === 'gone') return this.look({ runId });
      if (claim.state === 'held') return { units: [] };
      if (claim.state === 'later' && claim.waitMs > SHORT_WAIT_MS)
        return { units: [{ unit, due: Date.now() + claim.waitMs }] };
      // Somebody who holds it finishes it, or loses it.
      const waitMs = claim.state === 'later' ? claim.waitMs + 1 : Math.min(claim.waitMs + 1, LEASED_POLL_MS);
      await sleep(waitMs, undefined, { signal: context.cancellationSignal }).catch(() => this.#passShutdown(context));
    }
  }

  #passShutdown(context: Context): Promise<void> | void {
    if (isShutdown(context)) throw new AppError('LEASE_LOST', 'The worker stops.');
    // Cancelled for another reason: the row says what to do. Without a pause this would be a busy loop.
    return sleep(LEASED_POLL_MS);
  }

  async #run(held: HeldUnit, context: Context): Promise<Answer> {
    const { leases, work, views } = this.#ports;
    const units = new Map<string, OpenUnit>();
    let ended: RunView | undefined;
    const ports: UnitPorts = {
      ...this.#ports,
      room: () => MAX_HANDED_OVER,
      handMs: 0,
      scheduled: (scheduled) => {
        for (const { unit, dueAt } of scheduled)
          units.set(unit, { unit, ...(dueAt === undefined ? {} : { due: Date.parse(dueAt) }) });
      },
      ended: (view) => {
        ended = view;
      },
    };
    const stopWatching = this.#watch(held, context);
    leases.add(held);
    // A unit that was handed over has a lease without time; one that takes longer gets some.
    const soon = setTimeout(() => void leases.renew([held]), RENEW_SOON_MS);
    try {
      const { runKey, runId } = held;
      for (const lease of await doUnit(ports, held)) this.#handed.put({ deliveries: 1, ...lease, runKey, runId });
      await faultPoint('temporal.after-unit');
    } catch (error) {
      if (error instanceof AppError && error.code === 'LEASE_LOST') {
        // The unit ended without us, or this worker stops and another one goes on at once.
        if (!isShutdown(context)) return await this.look({ runId: held.runId });
        await work.release([held]).catch(() => {});
      } else {
        views.forget(held.runId);
        const message = error instanceof Error ? error.message : String(error);
        await work.release([held], { error: message.slice(0, 2000) }).catch(() => {});
      }
      throw error;
    } finally {
      clearTimeout(soon);
      leases.delete(held);
      stopWatching();
    }
    if (ended) return this.look({ runId: held.runId });
    const all = [...units.values()];
    const view = await this.#viewOf(held.runId);
    return {
      units: all.slice(0, MAX_UNITS),
      ...(all.length > MAX_UNITS ? { more: '' } : {}),
      ...(mustStop(view.state) ? { stop: true } : {}),
    };
  }

  /** Also of a run whose plan cannot be read any more: it was ended for that, and Temporal has to know. */
  async #viewOf(runId: string): Promise<RunView> {
    const { views } = this.#ports;
    try {
      return await views.get(runId);
    } catch (thrown) {
      if (!(thrown instanceof PlanUnreadable)) throw thrown;
      return views.withoutPlan(runId);
    }
  }

  /** A cancellation only says that there is news: whether the unit has to stop is in its row. */
  #watch(held: HeldUnit, context: Context): () => void {
    const { cancellationSignal } = context;
    const onCancel = (): void => {
      if (isShutdown(context)) held.lose();
      else void this.#ports.leases.renew([held]);
    };
    if (cancellationSignal.aborted) onCancel();
    else cancellationSignal.addEventListener('abort', onCancel, { once: true });
    return () => cancellationSignal.removeEventListener('abort', onCancel);
  }

  async look({ runId, after }: LookRequest): Promise<Answer> {
    const { store, work, views } = this.#ports;
    const run = await store.findRun(runId);
    if (!run) return { units: [], ended: true };
    const rows = (await work.list(runId)).filter((row) => !row.held);
    const later = rows
      .filter((row) => after === undefined || row.unit > after)
      .sort((a, b) => (a.unit < b.unit ? -1 : 1));
    const units = later.slice(0, MAX_UNITS).map(
      ({ unit, leaseOwner, nextEligibleAt }): OpenUnit => ({
        unit,
        ...(nextEligibleAt === undefined ? {} : { due: Date.parse(nextEligibleAt) }),
        ...(leaseOwner === undefined ? {} : { taken: true }),
      }),
    );
    const more = later.length > MAX_UNITS ? { more: units.at(-1)!.unit } : {};
    const view = await this.#viewOf(runId);
    await views.refresh(view);
    if (run.status !== undefined && isTerminal(run.status)) {
      const { parentRunId, parentEntity } = view.state.run;
      views.forget(runId);
      if (parentRunId === undefined || parentEntity === undefined) return { units, ended: true, ...more };
      await work.wake(parentRunId, `w:${parentEntity}`);
      return { units, ended: true, parent: { workflowId: workflowIdOf(parentRunId) }, ...more };
    }
    return { units, ...(mustStop(view.state) ? { stop: true } : {}), ...more };
  }

  /** Somebody cancelled the workflow: the log is told, once. */
  async cancelRun({ runId, signalId }: CancelRequest): Promise<void> {
    const { engine, store } = this.#ports;
    try {
      const run = await store.findRun(runId);
      if (run) await engine.signal(engine.refOf(run), { signalId, type: 'CANCEL', by: 'temporal' });
    } catch (error) {
      throw this.#failure(error, 'cancel');
    }
  }

  /** Every execution of a chain leads to the run. */
  async #link(runId: string, { info }: Context): Promise<void> {
    const execution = info.workflowExecution;
    if (!execution || this.#linked.has(execution.runId)) return;
    const { workflowId, runId: providerRunId } = execution;
    await this.#ports.store.linkProvider(runId, { provider: 'temporal', workflowId, providerRunId });
    if (this.#linked.size >= MAX_LINKED) this.#linked.clear();
    this.#linked.add(providerRunId);
  }

  /** What Temporal is told of a failure is its code: messages may hold what must not leave the log. */
  #failure(error: unknown, what: string): ApplicationFailure {
    this.#ports.onError(error, what);
    const code = error instanceof AppError ? error.code : 'INTERNAL';
    return ApplicationFailure.create({ message: code, type: code });
  }
}

const isShutdown = (context: Context): boolean => context.cancellationDetails?.workerShutdown === true;
