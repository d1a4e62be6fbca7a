import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../contracts/errors.ts';
import type { Plan, Task } from '../contracts/plan.ts';
import type { ErrorInfo, StoredValue } from '../contracts/values.ts';
import type { CommandOf, EventDraft, Settled } from '../kernel/commands.ts';
import { unitEntity } from '../kernel/entity-path.ts';
import { compileValue } from '../kernel/expressions/compile-value.ts';
import type { JsonObject } from '../kernel/payload-reader.ts';
import {
  afterOutcome,
  type Instruction,
  nextInPipeline,
  type PipelineAnswer,
  renderFields,
} from '../kernel/pipeline.ts';
import { compilePipeline } from '../kernel/pipeline-plan.ts';
import { type PipelineContext, PipelineScopes, type TaskOutcome } from '../kernel/pipeline-scope.ts';
import { PIPELINE_START, type PipelineState, resumePipeline } from '../kernel/pipeline-state.ts';
import { mergeInput, renderWorkbook, workbookTask } from '../kernel/tool-fields.ts';
import { faultPoint } from '../lib/fault-point.ts';
import { Redactor } from '../lib/redact.ts';
import { resolveSecretReferences } from '../lib/secrets.ts';
import { abortError } from '../tools/outcomes.ts';
import type { CallContext, CallPlace, EffectClass, Tool, ToolOutcome } from '../tools/tool.ts';
import { type Deadline, deadline } from './deadline.ts';
import { resolveKeychain } from './keychain.ts';
import type { RunnerPorts } from './ports.ts';
import { MustPark, runEffect, WRITE_TIMEOUT_MS } from './run-effect.ts';
import { fetchValues, storeResult } from './store-result.ts';
import type { UnitHost } from './unit-host.ts';

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

/** A child run that stands for a call: the step waits for it and goes on with its outcome. */
class AwaitChild extends Error {
  readonly childRunId: string;
  readonly details: Record<string, unknown>;

  constructor(childRunId: string, details: Record<string, unknown>) {
    super('the step waits for a child run');
    this.childRunId = childRunId;
    this.details = details;
  }
}

class UnitRun {
  readonly #ports: RunnerPorts;
  readonly #host: UnitHost;
  readonly #redactor = new Redactor();
  readonly #startedAt = Date.now();
  #buffer: EventDraft[];
  #writing: Promise<void> = Promise.resolve();
  #values: Record<string, unknown> = {};

  constructor(ports: RunnerPorts, host: UnitHost) {
    this.#ports = ports;
    this.#host = host;
    this.#buffer = [...host.begun];
  }

  async run(): Promise<UnitEnd> {
    let state = await this.#resume();
    let answer = await this.#answer(() => nextInPipeline(this.#context(), state));
    for (;;) {
      this.#buffer.push(...answer.events);
      state = answer.state;
      if (answer.do === 'end') return this.#settled(answer);
      try {
        if (answer.do === 'wait') {
          const parked = await this.#waitForRetry(answer.millis);
          if (parked) return parked;
          answer = await this.#answer(() => nextInPipeline(this.#context(), state));
        } else {
          const outcome = await this.#runTask(answer, state);
          answer = await this.#answer(() => afterOutcome(this.#context(), state, outcome));
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
    await this.#writing;
    return { kind: 'parked', wait, facts: this.#takeBuffer() };
  }

  async #settled(end: Extract<Instruction, { do: 'end' }>): Promise<UnitEnd> {
    await this.#writing;
    const durationMs = Date.now() - this.#startedAt;
    return { kind: 'settled', settled: { ...end.settled, durationMs }, set: end.set, facts: this.#takeBuffer() };
  }

  #takeBuffer(): EventDraft[] {
    const facts = this.#buffer;
    this.#buffer = [];
    return facts;
  }

  /** Stores what is buffered, with these events behind it. Stores follow each other: the log has one order. */
  #record(events: readonly EventDraft[] = []): Promise<void> {
    this.#buffer.push(...events);
    const writing = this.#writing.then(async () => {
      const taken = this.#takeBuffer();
      if (taken.length === 0) return;
      try {
        await this.#host.record(taken);
      } catch (thrown) {
        // Nothing of it was stored. What led to the effect is still true; the effect is somebody else's.
        if (isTaken(thrown))
          this.#buffer = [...taken.filter(({ eventType }) => !IS_EFFECT.test(eventType)), ...this.#buffer];
        throw thrown;
      }
    });
    this.#writing = writing.catch((thrown: unknown) => {
      if (!isTaken(thrown)) throw thrown;
    });
    // Whoever waits for it is told; until then it is nobody's unhandled rejection.
    this.#writing.catch(() => {});
    return writing;
  }

  #context(): PipelineContext {
    const { view, place, item } = this.#host;
    return {
      plan: view.plan,
      state: view.state,
      stepId: place.stepId,
      attempt: place.attempt,
      ...(place.index === undefined ? {} : { iteration: { index: place.index, item } }),
      values: this.#values,
      random: Math.random(),
    };
  }

  async #resume(): Promise<PipelineState> {
    if (!this.#host.isRedelivered) return PIPELINE_START;
    const { view, place } = this.#host;
    const name = view.state.open.get(place.stepId)?.name ?? place.stepId;
    const recorded = await this.#host.recorded();
    return resumePipeline(compilePipeline(view.plan, name), unitEntity(place.stepId, place.index), recorded);
  }

  /** Asks the machine, fetching the stored values that it needs. */
  async #answer(ask: () => PipelineAnswer): Promise<Instruction> {
    for (;;) {
      const answer = ask();
      if (!('need' in answer)) return answer;
      await this.#fetch(answer.need);
    }
  }

  async #fetch(refs: readonly string[]): Promise<void> {
    this.#values = await fetchValues(this.#ports.artifacts, refs, this.#values);
  }

  async #waitForRetry(millis: number): Promise<UnitEnd | undefined> {
    if (millis > IN_PROCESS_WAIT_MS) {
      const dueAt = new Date(Date.now() + millis).toISOString();
      return this.#parked({ kind: 'timer', dueAt, details: { reason: 'RETRY' } });
    }
    if (millis === 0) return undefined;
    await this.#record();
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
    const show = setTimeout(() => void this.#record().catch(() => {}), SHOW_AFTER_MS);
    let outcome: ToolOutcome;
    try {
      outcome = await this.#call(task, `${entity}@${attempt}`, state, limit);
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
    return this.#toTaskOutcome(task, entity, outcome, performance.now() - began);
  }

  #stepTimeLeft(): number | undefined {
    const step = this.#host.view.state.open.get(this.#host.place.stepId);
    if (step?.timeoutMs === undefined) return undefined;
    const from = step.startedAt === undefined ? this.#startedAt : Date.parse(step.startedAt);
    return Math.max(0, from + step.timeoutMs - Date.now());
  }

  async #call(task: Task, entity: string, state: PipelineState, limit: Deadline): Promise<ToolOutcome> {
    const { view, place: unit } = this.#host;
    const { tenantId, projectId, environmentId, runId } = view.run;
    const place: CallPlace = {
      tenantId,
      projectId,
      environmentId,
      runId,
      stepId: unit.stepId,
      entity,
      attempt: unit.attempt,
    };
    const resolved = await this.#render(task, state);
    if (resolved.task.kind === 'playbook') return this.#child(resolved.task, resolved.input, place);
    const tool = this.#ports.tools.get(resolved.task.kind);
    const fields = await this.#withSecrets(resolved.input);
    const input = this.#ports.tools.prepare(tool, fields);
    const effectClass = declaredClass(task, resolved.task) ?? tool.classify(input);
    const timeoutMs = effectClass === 'write' ? Math.min(limit.timeoutMs, WRITE_TIMEOUT_MS) : limit.timeoutMs;
    const context: CallContext = {
      place,
      signal: limit.signal,
      timeoutMs,
      effectClass,
      artifacts: this.#ports.artifacts,
      log: (stream, line) => this.#ports.log?.({ entity, stream, line: this.#redactor.redact(line) }),
      secret: (name) => this.#secret(name),
    };
    if (effectClass === 'write') return this.#write(tool, task, input, place, context, state, limit);
    // Code whose effect nobody stated must not run before what led to it is on disk.
    if (effectClass === 'undeclared') await this.#record();
    return limit.race(tool.call(input, context));
  }

  #write(
    tool: Tool,
    task: Task,
    input: Record<string, unknown>,
    place: CallPlace,
    context: CallContext,
    state: PipelineState,
    limit: Deadline,
  ): Promise<ToolOutcome> {
    return limit.race(
      runEffect({
        tool,
        task,
        input,
        place,
        context,
        host: this.#host,
        policy: this.#ports.policy,
        redactor: this.#redactor,
        ownKey: this.#ownKey(task, state, input),
        record: (events) => this.#record(events),
        later: (event) => {
          this.#buffer.push(event);
        },
        toStored: (value) => storeResult(this.#ports.artifacts, this.#redactor.redact(value), task.result),
      }),
    );
  }

  #ownKey(task: Task, state: PipelineState, input: Record<string, unknown>): string | undefined {
    const key = task.effect?.key;
    if (key === undefined) return undefined;
    const scopes = new PipelineScopes(this.#context());
    const rendered = compileValue(key).evaluate(scopes.scope(state, task, undefined, { input }), scopes.options);
    return typeof rendered === 'string' ? rendered : JSON.stringify(rendered);
  }

  async #secret(name: string): Promise<unknown> {
    const { tenantId, environmentId } = this.#host.view.run;
    const secret = await this.#ports.secrets.resolve(name, { tenantId, environmentId });
    this.#redactor.add(secret);
    return secret;
  }

  /** What the `secrets` tool recorded is a reference: its value exists only here, right before the call. */
  async #withSecrets(input: Record<string, unknown>): Promise<Record<string, unknown>> {
    if (!usesSecretsTool(this.#host.view.plan)) return input;
    return (await resolveSecretReferences(input, (name) => this.#secret(name))) as Record<string, unknown>;
  }

  /** The task that is called in the end, and its fields. A workbook task is rendered where it is used. */
  async #render(task: Task, state: PipelineState): Promise<{ task: Task; input: Record<string, unknown> }> {
    const { tenantId, environmentId } = this.#host.view.run;
    const { plan } = this.#host.view;
    const scope = { tenantId, environmentId };
    const keychain = await resolveKeychain(plan, task, this.#ports.secrets, scope, this.#redactor);
    const rendered = await this.#withValues<{ fields: JsonObject; input: unknown }>(() =>
      renderFields(this.#context(), state, keychain),
    );
    const fields = mergeInput(rendered.fields, rendered.input);
    if (task.kind !== 'workbook') return { task, input: { ...fields } };
    const named = workbookTask(plan, fields);
    const own = await resolveKeychain(plan, named, this.#ports.secrets, scope, this.#redactor);
    const called = await this.#withValues<{ fields: JsonObject }>(() =>
      renderWorkbook(this.#context(), state, { caller: task, named, fields }, own),
    );
    return { task: named, input: { ...called.fields } };
  }

  async #withValues<T extends object>(work: () => T | { need: readonly string[] }): Promise<T> {
    for (;;) {
      const answer = work();
      if (!('need' in answer) || !Array.isArray((answer as { need: unknown }).need)) return answer as T;
      await this.#fetch((answer as { need: readonly string[] }).need);
    }
  }

  /** A child run has the id that follows from its call, so that it is started once however often the call is delivered. */
  async #child(task: Task, input: Record<string, unknown>, place: CallPlace): Promise<ToolOutcome> {
    const childRunId = childRunIdOf(place);
    const recorded = await this.#host.recorded();
    const wait = recorded.find(
      ({ eventType, payload }) => eventType === 'WaitStarted' && payload?.['childRunId'] === childRunId,
    );
    const ended = wait && recorded.find(({ eventType, entity }) => eventType === 'WaitEnded' && entity === wait.entity);
    if (!ended) {
      const given = isObject(input['input']) ? input['input'] : isObject(input['payload']) ? input['payload'] : {};
      const child = task.child ?? { path: String(input['path']) };
      const details = { child, workload: this.#redactor.redact(given), entity: place.entity };
      const returnStep = input['return_step'];
      throw new AwaitChild(childRunId, typeof returnStep === 'string' ? { ...details, returnStep } : details);
    }
    const { outcome, result, error } = ended.payload as { outcome: string; result?: StoredValue; error?: ErrorInfo };
    if (outcome === 'done') {
      const value = result && 'value' in result ? result.value : await this.#valueOf(result);
      return { status: 'ok', result: value };
    }
    const { category, code, message, retryable } = error ?? {
      category: 'child',
      code: 'CHILD_RUN_FAILED',
      message: 'The child run did not complete.',
      retryable: false,
    };
    return { status: 'error', error: { kind: category, code, message, retryable } };
  }

  async #valueOf(stored: StoredValue | undefined): Promise<unknown> {
    if (stored === undefined) return null;
    if ('value' in stored) return stored.value;
    await this.#fetch([stored.ref.uri]);
    return this.#values[stored.ref.uri];
  }

  async #toTaskOutcome(task: Task, entity: string, outcome: ToolOutcome, millis: number): Promise<TaskOutcome> {
    await faultPoint('runner.before-result');
    const clean = this.#redactor.redact(outcome);
    const { meta, http, pg, py } = clean;
    const rest = {
      meta: { ...meta, duration_ms: Math.round(millis), ...(http ? { http_status: http.status } : {}) },
      ...(http ? { http } : {}),
      ...(pg ? { pg } : {}),
      ...(py ? { py } : {}),
    };
    const value = clean.result;
    const result =
      value === undefined && clean.status === 'error'
        ? undefined
        : await storeResult(this.#ports.artifacts, value, task.result);
    if (result && 'ref' in result) {
      const { stepId, attempt } = this.#host.place;
      this.#buffer.push({ eventType: 'ResultStored', stepId, entity, logicalAttemptId: attempt, payload: { result } });
    }
    if (clean.status === 'ok') return { status: 'ok', ...rest, ...(result ? { result } : {}) };
    const { kind, code, message, retryable, retryAfterMs } = clean.error;
    const error = {
      kind: kind.slice(0, 128),
      code: code.slice(0, 128),
      message: message.slice(0, 8192),
      retryable,
      ...(retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs }),
    };
    return { status: 'error', error, ...rest, ...(result ? { result } : {}) };
  }
}

const IS_EFFECT = /^(EffectAttempted|PolicyEffectEvaluated)$/;
const isTaken = (thrown: unknown): boolean => thrown instanceof AppError && thrown.code === 'EFFECT_TAKEN';

const SECRET_PLANS = new WeakMap<Plan, boolean>();

function usesSecretsTool(plan: Plan): boolean {
  const known = SECRET_PLANS.get(plan);
  if (known !== undefined) return known;
  const tasks = [...plan.steps.flatMap((step) => step.tasks), ...Object.values(plan.workbook)];
  const uses = tasks.some((task) => task.kind === 'secrets');
  SECRET_PLANS.set(plan, uses);
  return uses;
}

function declaredClass(task: Task, resolved: Task): EffectClass | undefined {
  return task.effect?.class ?? resolved.effect?.class;
}

/** What the destination asked for wins over a shorter backoff. */
function retryAfterOf(outcome: TaskOutcome): number | undefined {
  const asked = (outcome.error as { retry_after_ms?: unknown } | undefined)?.retry_after_ms;
  return typeof asked === 'number' ? asked : undefined;
}

/** What a tool threw is its defect; no stack trace leaves the worker. */
function thrownError(thrown: unknown): Extract<ToolOutcome, { status: 'error' }>['error'] {
  if (thrown instanceof AppError) {
    const isTemplate = thrown.code.startsWith('TEMPLATE_');
    const kind = isTemplate ? 'template' : thrown.code === 'TOOL_UNAVAILABLE' ? 'tool' : 'input';
    return { kind, code: thrown.code, message: thrown.message, retryable: thrown.retryable };
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { kind: 'internal', code: 'INTERNAL', message, retryable: false };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A UUID that follows from the call: the same call has the same child. */
function childRunIdOf(place: Pick<CallPlace, 'runId' | 'entity' | 'attempt'>): string {
  const hash = createHash('sha256').update(`${place.runId}|${place.entity}|${place.attempt}`).digest('hex');
  const variant = ((Number.parseInt(hash[16]!, 16) & 3) | 8).toString(16);
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-4${hash.slice(13, 16)}-${variant}${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
}
