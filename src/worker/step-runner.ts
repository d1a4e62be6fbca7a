import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../contracts/errors.ts';
import type { CommandOf, EventDraft, Settled } from '../kernel/commands.ts';
import { unitEntity } from '../kernel/entity-path.ts';
import type { JsonObject } from '../kernel/payload-reader.ts';
import { afterOutcome, type Instruction, nextInPipeline } from '../kernel/pipeline.ts';
import { compilePipeline } from '../kernel/pipeline-plan.ts';
import type { TaskOutcome } from '../kernel/pipeline-scope.ts';
import { PIPELINE_START, type PipelineState, resumePipeline } from '../kernel/pipeline-state.ts';
import { faultPoint } from '../lib/fault-point.ts';
import { Redactor } from '../lib/redact.ts';
import { abortError } from '../tools/outcomes.ts';
import type { ToolOutcome } from '../tools/tool.ts';
import { AwaitChild } from './child-call.ts';
import { deadline } from './deadline.ts';
import { FactBuffer } from './fact-buffer.ts';
import type { RunnerPorts } from './ports.ts';
import { MustPark } from './run-effect.ts';
import { shownValue, storeResult } from './store-result.ts';
import { TaskCalls } from './task-calls.ts';
import { retryAfterOf, thrownError, toTaskOutcome } from './task-outcome.ts';
import type { UnitHost } from './unit-host.ts';
import { UnitScope } from './unit-scope.ts';

/** A retry that comes sooner than this is waited for in the process; a later one gives the lease back. */
const IN_PROCESS_WAIT_MS = 2000;
/** A task that runs longer than this is shown in the log while it runs. */
const SHOW_AFTER_MS = 250;

type Park = Omit<CommandOf<'park'>, 'type' | 'now' | 'stepId' | 'attempt' | 'index' | 'values' | 'random'>;

/** How a unit came out of the runner. `facts` are recorded with whatever is decided about it. */
export type UnitEnd =
  | {
      readonly kind: 'settled';
      readonly settled: Settled;
      readonly set: JsonObject;
      readonly facts: readonly EventDraft[];
    }
  | { readonly kind: 'parked'; readonly wait: Park; readonly facts: readonly EventDraft[] };

/** Runs one step attempt, or one iteration, from where its record stands to its end or to a wait. */
export async function runUnit(ports: RunnerPorts, host: UnitHost): Promise<UnitEnd> {
  return new UnitRun(ports, host).run();
}

class UnitRun {
  readonly #ports: RunnerPorts;
  readonly #host: UnitHost;
  readonly #redactor = new Redactor();
  readonly #startedAt = Date.now();
  readonly #facts: FactBuffer;
  readonly #scope: UnitScope;
  readonly #calls: TaskCalls;

  constructor(ports: RunnerPorts, host: UnitHost) {
    this.#ports = ports;
    this.#host = host;
    this.#facts = new FactBuffer(host);
    this.#scope = new UnitScope(ports.artifacts, host);
    const { facts, scope, redactor } = { facts: this.#facts, scope: this.#scope, redactor: this.#redactor };
    this.#calls = new TaskCalls({ ports, host, redactor, facts, scope });
  }

  async run(): Promise<UnitEnd> {
    let state = await this.#resume();
    let answer = await this.#scope.answer(() => nextInPipeline(this.#scope.context(), state));
    for (;;) {
      this.#facts.add(...answer.events);
      state = answer.state;
      if (answer.do === 'end') return this.#settled(answer);
      try {
        if (answer.do === 'wait') {
          const parked = await this.#waitForRetry(answer.millis);
          if (parked) return parked;
          answer = await this.#scope.answer(() => nextInPipeline(this.#scope.context(), state));
        } else {
          const outcome = await this.#runTask(answer, state);
          answer = await this.#scope.answer(() => afterOutcome(this.#scope.context(), state, outcome));
          const wait = answer.do === 'wait' ? retryAfterOf(outcome) : undefined;
          if (answer.do === 'wait' && wait !== undefined && wait > answer.millis) answer = { ...answer, millis: wait };
        }
      } catch (thrown) {
        if (thrown instanceof MustPark) return this.#parked(thrown.wait);
        if (thrown instanceof AwaitChild) {
          return this.#parked({ kind: 'child', childRunId: thrown.childRunId, details: thrown.details });
        }
        throw thrown;
      }
    }
  }

  async #parked(wait: Park): Promise<UnitEnd> {
    return { kind: 'parked', wait, facts: await this.#facts.drain() };
  }

  async #settled(end: Extract<Instruction, { do: 'end' }>): Promise<UnitEnd> {
    const durationMs = Date.now() - this.#startedAt;
    const settled = await this.#frameStored(end.settled);
    return { kind: 'settled', settled: { ...settled, durationMs }, set: end.set, facts: await this.#facts.drain() };
  }

  /** What the rows of a frame gave is one result, and may be too large for the log. */
  async #frameStored(settled: Settled): Promise<Settled> {
    if (settled.status !== 'completed' || settled.rowResults === undefined) return settled;
    const { rowResults, ...rest } = settled;
    const result = await storeResult(this.#ports.artifacts, rowResults.map(shownValue), undefined, 'frame-result');
    return { ...rest, result };
  }

  async #resume(): Promise<PipelineState> {
    if (!this.#host.isRedelivered) return PIPELINE_START;
    const { view, place } = this.#host;
    const name = view.state.open.get(place.stepId)?.name ?? place.stepId;
    const recorded = await this.#host.recorded();
    return resumePipeline(compilePipeline(view.plan, name), unitEntity(place.stepId, place.index), recorded);
  }

  async #waitForRetry(millis: number): Promise<UnitEnd | undefined> {
    if (millis > IN_PROCESS_WAIT_MS) {
      const dueAt = new Date(Date.now() + millis).toISOString();
      return this.#parked({ kind: 'timer', dueAt, details: { reason: 'RETRY' } });
    }
    if (millis === 0) return undefined;
    await this.#facts.record();
    await sleep(millis, undefined, { signal: this.#host.signal }).catch(() => {});
    this.#throwIfLost();
    return undefined;
  }

  #throwIfLost(): void {
    const { signal } = this.#host;
    if (signal.aborted && (signal.reason as AppError).code === 'LEASE_LOST') throw signal.reason;
  }

  async #runTask(instruction: Extract<Instruction, { do: 'run' }>, state: PipelineState): Promise<TaskOutcome> {
    const { entity, attempt, task } = instruction;
    const began = performance.now();
    const limit = deadline(this.#host.signal, instruction.timeoutMs, this.#stepTimeLeft());
    const show = setTimeout(() => void this.#facts.record().catch(() => {}), SHOW_AFTER_MS);
    let outcome: ToolOutcome;
    try {
      outcome = await this.#calls.call(task, `${entity}@${attempt}`, state, limit);
    } catch (thrown) {
      if (thrown instanceof MustPark || thrown instanceof AwaitChild) throw thrown;
      this.#throwIfLost();
      if (thrown instanceof AppError && (thrown.code === 'LEASE_LOST' || thrown.code === 'STORE_UNAVAILABLE'))
        throw thrown;
      outcome = { status: 'error', error: limit.signal.aborted ? abortError(limit.signal) : thrownError(thrown) };
    } finally {
      clearTimeout(show);
      limit.end();
    }
    this.#throwIfLost();
    await faultPoint('runner.before-result');
    const millis = performance.now() - began;
    const told = await toTaskOutcome(this.#ports.artifacts, this.#redactor.redact(outcome), task, millis);
    const { result } = told;
    if (result && 'ref' in result) {
      const { stepId, attempt: logicalAttemptId } = this.#host.place;
      // Each try may store a result: with the attempt in its path, none is taken for the one before it.
      const place = { stepId, entity: `${entity}@${attempt}`, logicalAttemptId };
      this.#facts.add({ eventType: 'ResultStored', ...place, payload: { result } });
    }
    return told;
  }

  #stepTimeLeft(): number | undefined {
    const step = this.#host.view.state.open.get(this.#host.place.stepId);
    if (step?.timeoutMs === undefined) return undefined;
    const from = step.startedAt === undefined ? this.#startedAt : Date.parse(step.startedAt);
    return Math.max(0, from + step.timeoutMs - Date.now());
  }
}
