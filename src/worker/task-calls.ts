import { AppError } from '../contracts/errors.ts';
import type { Plan, Task } from '../contracts/plan.ts';
import type { ArtifactRef } from '../contracts/values.ts';
import { compileValue } from '../kernel/expressions/compile-value.ts';
import { hasTemplate } from '../kernel/expressions/scan-blocks.ts';
import type { JsonObject } from '../kernel/payload-reader.ts';
import { renderFields } from '../kernel/pipeline.ts';
import { PipelineScopes } from '../kernel/pipeline-scope.ts';
import type { PipelineState } from '../kernel/pipeline-state.ts';
import { mergeInput, renderBeside, renderWorkbook, workbookTask } from '../kernel/tool-fields.ts';
import type { Redactor } from '../lib/redact.ts';
import { resolveSecretReferences } from '../lib/secrets.ts';
import type { ArtifactStore, CallContext, CallPlace, EffectClass, Tool, ToolOutcome } from '../tools/tool.ts';
import { callChild } from './child-call.ts';
import { type Deadline, deadline } from './deadline.ts';
import type { FactBuffer } from './fact-buffer.ts';
import { resolveKeychain } from './keychain.ts';
import { withScript } from './load-script.ts';
import type { RunnerPorts } from './ports.ts';
import { runEffect, WRITE_TIMEOUT_MS } from './run-effect.ts';
import { storeResult } from './store-result.ts';
import type { UnitHost } from './unit-host.ts';
import type { UnitScope } from './unit-scope.ts';

interface CallPorts {
  readonly ports: RunnerPorts;
  readonly host: UnitHost;
  readonly redactor: Redactor;
  readonly facts: FactBuffer;
  readonly scope: UnitScope;
}

/** The tool calls of a unit: fields rendered, secrets resolved, and each class of effect called in its own way. */
export class TaskCalls {
  readonly #ports: RunnerPorts;
  readonly #host: UnitHost;
  readonly #redactor: Redactor;
  readonly #facts: FactBuffer;
  readonly #scope: UnitScope;

  constructor({ ports, host, redactor, facts, scope }: CallPorts) {
    this.#ports = ports;
    this.#host = host;
    this.#redactor = redactor;
    this.#facts = facts;
    this.#scope = scope;
  }

  async call(task: Task, entity: string, state: PipelineState, limit: Deadline): Promise<ToolOutcome> {
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
    if (resolved.task.kind === 'playbook')
      return callChild({
        host: this.#host,
        artifacts: this.#ports.artifacts,
        redactor: this.#redactor,
        ...resolved,
        place,
      });
    const tool = this.#ports.tools.get(resolved.task.kind);
    const { fields, script } = await withScript(
      tool.kind,
      await this.#withSecrets(resolved.input),
      this.#ports.scripts,
      limit.signal,
    );
    const input = this.#ports.tools.prepare(tool, fields);
    const effectClass = declaredClass(task, resolved.task) ?? tool.classify(input);
    const timeoutMs = effectClass === 'write' ? Math.min(limit.timeoutMs, WRITE_TIMEOUT_MS) : limit.timeoutMs;
    const made: ArtifactRef[] = [];
    const context: CallContext = {
      place,
      signal: limit.signal,
      timeoutMs,
      effectClass,
      artifacts: noting(this.#ports.artifacts, made),
      log: (stream, line) =>
        this.#ports.log?.({
          tenantId,
          projectId,
          environmentId,
          runId,
          stepId: unit.stepId,
          entity,
          logicalAttemptId: unit.attempt,
          engineAttemptId: this.#host.engineAttempt,
          stream,
          line: this.#redactor.redact(line),
        }),
      secret: (name) => this.#secret(name),
    };
    // Code whose effect nobody stated must not run before what led to it is on disk.
    if (effectClass === 'undeclared') await this.#facts.record();
    const calling =
      effectClass === 'write'
        ? this.#write(tool, task, input, place, context, state, limit)
        : limit.race(tool.call(input, context));
    const outcome = withMade(await calling, made);
    return script ? { ...outcome, meta: { ...outcome.meta, script } } : outcome;
  }

  async #write(
    tool: Tool,
    task: Task,
    input: Record<string, unknown>,
    place: CallPlace,
    context: CallContext,
    state: PipelineState,
    limit: Deadline,
  ): Promise<ToolOutcome> {
    // Where nobody limits a write, this does: the finder of a lost one has to know when it is over.
    const bound = limit.timeoutMs <= WRITE_TIMEOUT_MS ? limit : deadline(limit.signal, WRITE_TIMEOUT_MS, undefined);
    const effect = bound.race(
      runEffect({
        tool,
        task,
        input,
        place,
        context: { ...context, signal: bound.signal },
        host: this.#host,
        policy: this.#ports.policy,
        redactor: this.#redactor,
        ownKey: this.#ownKey(task, state, input),
        record: (events) => this.#facts.record(events),
        later: (event) => this.#facts.add(event),
        toStored: (value) => storeResult(this.#ports.artifacts, this.#redactor.redact(value), task.result),
      }),
    );
    return bound === limit ? effect : effect.finally(() => bound.end());
  }

  #ownKey(task: Task, state: PipelineState, input: Record<string, unknown>): string | undefined {
    const key = task.effect?.key;
    if (key === undefined) return undefined;
    const scopes = new PipelineScopes(this.#scope.context());
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
    const asked = secretsAskedFor(this.#host.view.plan);
    if (asked !== 'any' && asked.size === 0) return input;
    const lookup = (name: string): Promise<unknown> => {
      // Whoever starts a run can write a reference into its workload; that gives no right to the secret.
      if (asked === 'any' || asked.has(name)) return this.#secret(name);
      throw new AppError('SECRET_NOT_FOUND', `The playbook does not ask for the secret '${name}'.`, { name });
    };
    return (await resolveSecretReferences(input, lookup)) as Record<string, unknown>;
  }

  #keychain(task: Task, state: PipelineState): Promise<JsonObject> {
    const { plan, run } = this.#host.view;
    const { secrets, tokens } = this.#ports;
    return resolveKeychain(plan, task, {
      secrets,
      tokens,
      scope: { tenantId: run.tenantId, environmentId: run.environmentId },
      redactor: this.#redactor,
      render: async (source, keychain) => {
        const ask = () => renderBeside(this.#scope.context(), state, source, keychain);
        return (await this.#scope.answer<{ readonly value: unknown }>(ask)).value;
      },
    });
  }

  /** The task that is called in the end, and its fields. A workbook task is rendered where it is used. */
  async #render(task: Task, state: PipelineState): Promise<{ task: Task; input: Record<string, unknown> }> {
    const { plan } = this.#host.view;
    const keychain = await this.#keychain(task, state);
    const rendered = await this.#scope.answer<{ fields: JsonObject; input: unknown }>(() =>
      renderFields(this.#scope.context(), state, keychain),
    );
    const fields = mergeInput(rendered.fields, rendered.input);
    if (task.kind !== 'workbook') return { task, input: { ...fields } };
    const named = workbookTask(plan, fields);
    const own = await this.#keychain(named, state);
    const called = await this.#scope.answer<{ fields: JsonObject }>(() =>
      renderWorkbook(this.#scope.context(), state, { caller: task, named, fields }, own),
    );
    return { task: named, input: { ...called.fields } };
  }
}

/** The store, which notes what a call puts there: it belongs to what its step has made. */
function noting(artifacts: ArtifactStore, made: ArtifactRef[]): ArtifactStore {
  return {
    name: artifacts.name,
    get: (uri) => artifacts.get(uri),
    async put(bytes, kind) {
      const stored = await artifacts.put(bytes, kind);
      const { uri, sha256, sizeBytes, expiresAt } = stored;
      made.push({ uri, kind, sha256, sizeBytes, ...(expiresAt === undefined ? {} : { expiresAt }) });
      return stored;
    },
  };
}

function withMade(outcome: ToolOutcome, made: readonly ArtifactRef[]): ToolOutcome {
  if (made.length === 0) return outcome;
  const said = outcome.meta?.['artifacts'];
  const told = Array.isArray(said) ? (said as Partial<ArtifactRef>[]) : [];
  const rest = made.filter(({ uri }) => !told.some((ref) => ref.uri === uri));
  return { ...outcome, meta: { ...outcome.meta, artifacts: [...told, ...rest] } };
}

const SECRET_PLANS = new WeakMap<Plan, ReadonlySet<string> | 'any'>();

/** The secrets that tasks of the kind `secrets` name; any, where one of them is named by a template. */
function secretsAskedFor(plan: Plan): ReadonlySet<string> | 'any' {
  const known = SECRET_PLANS.get(plan);
  if (known !== undefined) return known;
  const tasks = [...plan.steps.flatMap((step) => step.tasks), ...Object.values(plan.workbook)];
  const names = tasks.filter((task) => task.kind === 'secrets').map((task) => String(task.with['auth']));
  const asked = names.some(hasTemplate) ? 'any' : new Set(names);
  SECRET_PLANS.set(plan, asked);
  return asked;
}

function declaredClass(task: Task, resolved: Task): EffectClass | undefined {
  return task.effect?.class ?? resolved.effect?.class;
}
