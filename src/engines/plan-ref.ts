import { Compile } from 'typebox/compile';
import { isSupportedSchemaVersion, parsePlan } from '../compiler/parse-plan.ts';
import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import { schemaProblems } from '../contracts/validate-event.ts';
import { PlanRef } from '../contracts/values.ts';
import type { Store } from '../store/store.ts';
import type { WorkStore } from '../store/work.ts';

/** Plans that the store keeps, by the hash of their bytes. Allowed by default. */
const LOCAL = /^runledger-plan:sha256\/([0-9a-f]{64})$/;
const DEFAULT_MAX_BYTES = 8 * 1024 * 1024;
const MAX_CACHED = 500;

/** A place outside of the store from which plans may be fetched. The fetcher checks where redirects and names lead. */
export interface PlanLocation {
  /** Scheme, host and beginning of the path, such as `https://plans.example.com/prod/`. */
  readonly prefix: string;
  readonly fetch: (uri: string, limit: number) => Promise<Uint8Array>;
}

export interface PlanSourceOptions {
  readonly store: Pick<Store, 'raiseAlert'>;
  readonly work: Pick<WorkStore, 'findPlan' | 'putPlan' | 'findPlanById'>;
  readonly allow?: readonly PlanLocation[];
  readonly maxBytes?: number;
  readonly now?: () => number;
}

const refCheck = Compile(PlanRef);

/** What every engine does with a PlanRef before a step may start: in one place, so that no engine forgets a check. */
export class PlanSource {
  readonly #options: PlanSourceOptions;
  readonly #plans = new Map<string, Plan>();

  constructor(options: PlanSourceOptions) {
    this.#options = options;
  }

  /** The plan behind a reference. Throws the code of the first check that fails; the allowlist comes before any fetch. */
  async fetch(ref: PlanRef): Promise<{ plan: Plan }> {
    this.check(ref);
    const known = this.#plans.get(ref.sha256);
    if (known) return { plan: known };
    const limit = this.#options.maxBytes ?? DEFAULT_MAX_BYTES;
    const bytes = await this.#read(ref, limit);
    let plan: Plan;
    try {
      plan = parsePlan(bytes, { sha256: ref.sha256, maxBytes: limit }).plan;
    } catch (error) {
      if (error instanceof AppError && error.code === 'PLAN_INTEGRITY_VALIDATION_FAILED') await this.#alert(ref, error);
      throw error;
    }
    const { planId, planVersion } = plan.metadata;
    if (planId !== ref.planId || planVersion !== ref.planVersion) {
      throw new AppError(
        'PLAN_INTEGRITY_VALIDATION_FAILED',
        `The reference names ${ref.planId} ${ref.planVersion}, the plan is ${planId} ${planVersion}.`,
        { expected: `${ref.planId} ${ref.planVersion}`, actual: `${planId} ${planVersion}` },
      );
    }
    if (this.#plans.size >= MAX_CACHED) this.#plans.delete(this.#plans.keys().next().value as string);
    this.#plans.set(ref.sha256, plan);
    return { plan };
  }

  /** Everything that can be said of a reference without fetching. */
  check(ref: PlanRef): void {
    if (!refCheck.Check(ref)) {
      const problems = schemaProblems(refCheck as never, ref, '');
      const text = problems.map(({ path, message }) => `${path} ${message}`).join('; ');
      throw new AppError('SCHEMA_VALIDATION_FAILED', `The plan reference is not valid: ${text}`, { problems });
    }
    if (!LOCAL.test(ref.uri) && !this.#locationOf(ref.uri)) {
      throw new AppError('PLAN_URI_NOT_ALLOWED', `Plans may not be fetched from ${ref.uri.slice(0, 200)}`, {});
    }
    if (!isSupportedSchemaVersion(ref.schemaVersion)) {
      const message = `The reference has the schema version ${ref.schemaVersion}, which this version does not run.`;
      throw new AppError('PLAN_SCHEMA_VERSION_UNSUPPORTED', message, { schemaVersion: ref.schemaVersion });
    }
    const now = this.#options.now?.() ?? Date.now();
    if (ref.expiresAt !== undefined && Date.parse(ref.expiresAt) <= now) {
      throw new AppError('PLAN_EXPIRED', `The plan reference expired at ${ref.expiresAt}.`, {
        expiresAt: ref.expiresAt,
      });
    }
    const limit = this.#options.maxBytes ?? DEFAULT_MAX_BYTES;
    if (ref.sizeBytes !== undefined && ref.sizeBytes > limit) {
      const message = `The plan has ${ref.sizeBytes} bytes; at most ${limit} are taken.`;
      throw new AppError('PLAN_TOO_LARGE', message, { size: ref.sizeBytes, limit });
    }
  }

  async #read(ref: PlanRef, limit: number): Promise<Uint8Array | string> {
    const local = LOCAL.exec(ref.uri);
    if (!local) return (this.#locationOf(ref.uri) as PlanLocation).fetch(ref.uri, limit);
    const stored = await this.#options.work.findPlan(local[1]!);
    if (!stored) throw new AppError('PLAN_NOT_FOUND', `The store has no plan ${local[1]}.`, { sha256: local[1] });
    return stored.body;
  }

  #locationOf(uri: string): PlanLocation | undefined {
    // A prefix is compared on the normalised address, lest `..` or user names lead out of it.
    let normal: string;
    try {
      const url = new URL(uri);
      if (url.username || url.password) return undefined;
      normal = url.href;
    } catch {
      return undefined;
    }
    if (/^(file|ftp|gopher|data|javascript):/i.test(normal)) return undefined;
    return this.#options.allow?.find(({ prefix }) => normal.startsWith(prefix));
  }

  async #alert(ref: PlanRef, error: AppError): Promise<void> {
    await this.#options.store.raiseAlert({
      code: 'PLAN_INTEGRITY_VALIDATION_FAILED',
      severity: 'P1',
      message: error.message,
      dedupeKey: `plan-integrity:${ref.uri.slice(0, 200)}:${ref.sha256}:${String(error.details['actual'])}`,
      details: { uri: ref.uri, expected: error.details['expected'], actual: error.details['actual'] },
    });
  }

  /** Keeps compiled plans, so that their references lead somewhere. */
  async keep(compiled: {
    readonly json: string;
    readonly sha256: string;
    readonly planRef: PlanRef;
  }): Promise<PlanRef> {
    const { planId, planVersion, schemaVersion } = compiled.planRef;
    await this.#options.work.putPlan({
      sha256: compiled.sha256,
      planId,
      planVersion,
      schemaVersion,
      body: compiled.json,
    });
    return compiled.planRef;
  }

  /** The exact plan that a child names, or the newest one of a path that only the running step knows. */
  async childRef(child: { readonly path: string; readonly sha256?: string }): Promise<PlanRef> {
    const { work } = this.#options;
    const stored = child.sha256 === undefined ? await work.findPlanById(child.path) : await work.findPlan(child.sha256);
    if (!stored)
      throw new AppError('PLAN_NOT_FOUND', `There is no plan for the playbook '${child.path}'.`, { ...child });
    const { sha256, planId, planVersion, schemaVersion } = stored;
    return { uri: `runledger-plan:sha256/${sha256}`, sha256, planId, planVersion, schemaVersion };
  }
}
