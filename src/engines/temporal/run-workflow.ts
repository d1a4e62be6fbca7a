import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  continueAsNew,
  defineSignal,
  getExternalWorkflowHandle,
  proxyActivities,
  setHandler,
  sleep,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow';
import type { Answer, LookSignal, OpenUnit, RunActivities, RunInput } from './protocol.ts';

/** Beyond this, the next execution asks the store instead of being told: payloads have a limit. */
const MAX_CARRIED = 1000;
/** After an activity that Temporal gave up. */
const AGAIN_MS = 5000;

const lookSignal = defineSignal<[LookSignal]>('look');

/** The only workflow: it starts what the log asks for. It knows names and times of open work, and decides nothing. */
export async function runledgerRun(input: RunInput): Promise<void> {
  await new RunSchedule(input).run();
}

interface Entry {
  due: number | undefined;
  tried: number;
  /** The activity, while it is on its way. */
  running: CancellationScope | undefined;
  /** It was asked for again meanwhile. */
  again: boolean;
}

class RunSchedule {
  readonly #input: RunInput;
  readonly #activities: RunActivities;
  readonly #open = new Map<string, Entry>();
  readonly #signals = new Map<string, LookSignal>();
  readonly #execution: number;
  #running = 0;
  #looking = false;
  #mustLook: boolean;
  #isCancelled = false;
  #hasEnded = false;
  #parent: string | undefined;
  #timer: { readonly at: number; readonly scope: CancellationScope } | undefined;
  #changed = false;

  constructor(input: RunInput) {
    this.#input = input;
    this.#execution = input.execution ?? 1;
    this.#mustLook = input.look ?? false;
    const { heartbeatMs, activityMs, retryMs, maxRetryMs } = input.limits;
    this.#activities = proxyActivities<RunActivities>({
      startToCloseTimeout: activityMs,
      heartbeatTimeout: heartbeatMs,
      retry: { initialInterval: retryMs, backoffCoefficient: 2, maximumInterval: maxRetryMs },
      // What an activity has stored stands, whether it was told to stop or not: its answer is waited for.
      cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    });
    for (const signal of input.signals ?? []) this.#signals.set(signal.id, signal);
    this.#add(input.open);
    // The execution before this one said that it hands over.
    if (workflowInfo().memo?.['substatus'] !== undefined) upsertMemo({ substatus: null });
    setHandler(lookSignal, (signal) => {
      this.#signals.set(signal.id, signal);
      this.#changed = true;
    });
  }

  async run(): Promise<void> {
    CancellationScope.current().cancelRequested.catch(() => {
      this.#isCancelled = true;
      this.#changed = true;
    });
    // Cancelling the workflow cancels the run, which then ends by its own rules; nothing here is torn down.
    await CancellationScope.nonCancellable(() => this.#loop());
  }

  async #loop(): Promise<void> {
    for (;;) {
      this.#changed = false;
      if (this.#isCancelled) await this.#cancelRun();
      if (this.#mustRotate()) await this.#rotate();
      this.#startLook();
      this.#startUnits();
      this.#setTimer();
      if (this.#hasEnded && this.#open.size === 0 && !this.#looking && !this.#mustLook) return this.#end();
      await condition(() => this.#changed);
    }
  }

  /** Somebody cancelled the workflow itself: what counts is the log, so the log is told. */
  async #cancelRun(): Promise<void> {
    this.#isCancelled = false;
    if (this.#hasEnded) return;
    const { runId } = this.#input;
    await this.#activities.cancelRun({ runId, signalId: `temporal:${workflowInfo().runId}` });
    this.#mustLook = true;
  }

  #add(units: readonly OpenUnit[], isSweep = false): void {
    for (const { unit, due, tried, taken } of units) {
      const known = this.#open.get(unit);
      if (!known) this.#open.set(unit, { due, tried: tried ?? 0, running: undefined, again: false });
      else if (!known.running) known.due = due;
      else if (!isSweep && !taken) known.again = true;
    }
  }

  #startUnits(): void {
    const now = Date.now();
    for (const [unit, entry] of this.#open) {
      if (this.#running >= this.#input.limits.maxInFlight) return;
      if (!entry.running && (entry.due === undefined || entry.due <= now)) this.#startUnit(unit, entry);
    }
  }

  #startUnit(unit: string, entry: Entry): void {
    const { runId } = this.#input;
    const scope = new CancellationScope({ cancellable: true });
    entry.running = scope;
    entry.again = false;
    this.#running += 1;
    const request = { runId, unit, execution: this.#execution, ...(entry.tried > 0 ? { tried: entry.tried } : {}) };
    scope
      .run(() => this.#activities.doUnit(request))
      .then(
        (answer) => this.#ended(unit, entry, answer),
        () => {
          // Its time is over, or it was cancelled before it began. Nothing is lost: the log knows whether it is to be done.
          this.#ended(unit, entry, { units: [{ unit, due: Date.now() + AGAIN_MS }] });
        },
      );
  }

  #ended(unit: string, entry: Entry, answer: Answer): void {
    this.#running -= 1;
    this.#open.delete(unit);
    if (entry.again) this.#add([{ unit }]);
    this.#take(answer);
  }

  #take({ units, ended, stop, parent, more }: Answer, isSweep = false): void {
    this.#changed = true;
    if (ended) {
      this.#hasEnded = true;
      this.#parent = parent?.workflowId ?? this.#parent;
      // What is left has lost its meaning, but for signals that its children must get.
      for (const [unit, entry] of this.#open) if (!entry.running && !unit.startsWith('x:')) this.#open.delete(unit);
    }
    this.#add(units, isSweep);
    if (more !== undefined) this.#mustLook = true;
    if (stop) for (const { running } of this.#open.values()) running?.cancel();
  }

  /** One look answers all signals that came before it. */
  #startLook(): void {
    if (this.#looking || (this.#signals.size === 0 && !this.#mustLook)) return;
    const signals = [...this.#signals.values()];
    const isSweep = !this.#mustLook && signals.every((signal) => signal.sweep === true);
    this.#looking = true;
    this.#mustLook = false;
    this.#look(isSweep)
      .then(
        () => {
          for (const { id } of signals) this.#signals.delete(id);
        },
        () => {
          this.#mustLook = true;
        },
      )
      .finally(() => {
        this.#looking = false;
        this.#changed = true;
      });
  }

  async #look(isSweep: boolean): Promise<void> {
    const { runId } = this.#input;
    for (let after: string | undefined; ; ) {
      const { more, ...answer } = await this.#activities.look({ runId, ...(after === undefined ? {} : { after }) });
      this.#take(answer, isSweep);
      if (more === undefined) return;
      after = more;
    }
  }

  /** One timer for the unit that is due first, or for a look when there is nothing to do at all. */
  #setTimer(): void {
    let at = Number.POSITIVE_INFINITY;
    for (const { running, due } of this.#open.values()) {
      if (!running && due !== undefined && due < at) at = due;
    }
    if (this.#open.size === 0 && !this.#hasEnded && !this.#looking) at = Date.now() + this.#input.limits.idleMs;
    if (at === Number.POSITIVE_INFINITY || (this.#timer && this.#timer.at <= at)) return;
    this.#timer?.scope.cancel();
    const isIdle = this.#open.size === 0;
    const scope = new CancellationScope({ cancellable: true });
    this.#timer = { at, scope };
    scope
      .run(() => sleep(Math.max(1, at - Date.now())))
      .then(
        () => {
          this.#timer = undefined;
          if (isIdle && this.#open.size === 0) this.#mustLook = true;
          this.#changed = true;
        },
        () => {},
      );
  }

  #mustRotate(): boolean {
    const { continueAsNewSuggested, historyLength, historySize } = workflowInfo();
    const { maxEvents, maxBytes } = this.#input.limits;
    if (this.#hasEnded && this.#open.size === 0) return false;
    return continueAsNewSuggested || historyLength >= maxEvents || historySize >= maxBytes;
  }

  /** Nothing new is started; what is on its way has a moment to end, and is taken over by the next execution if it does not. */
  async #rotate(): Promise<void> {
    const { runId, limits } = this.#input;
    const isBusy = (): boolean => this.#running > 0 || this.#looking;
    if (isBusy()) {
      upsertMemo({ substatus: 'CONTINUE_AS_NEW' });
      await condition(() => !isBusy(), limits.handOverMs);
    }
    const entries = [...this.#open].map(([unit, { due, tried, running }]): OpenUnit => {
      const times = running ? tried + 1 : tried;
      return { unit, ...(due === undefined || running ? {} : { due }), ...(times > 0 ? { tried: times } : {}) };
    });
    const isAll = entries.length <= MAX_CARRIED;
    await continueAsNew<typeof runledgerRun>({
      runId,
      open: isAll ? entries : entries.slice(0, MAX_CARRIED),
      signals: [...this.#signals.values()].slice(0, MAX_CARRIED),
      look: !isAll || this.#mustLook || this.#looking || this.#hasEnded || this.#signals.size > MAX_CARRIED,
      execution: this.#execution + 1,
      limits,
    });
  }

  async #end(): Promise<void> {
    if (this.#parent === undefined) return;
    // The parent looks by itself before long, should it have gone meanwhile.
    const parent = getExternalWorkflowHandle(this.#parent);
    await parent.signal(lookSignal, { id: `ended:${this.#input.runId}` }).catch(() => {});
  }
}
