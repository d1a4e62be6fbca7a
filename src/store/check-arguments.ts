import Type, { type TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { AppError } from '../contracts/errors.ts';
import { Id, KeyPart, UtcTime } from '../contracts/primitives.ts';
import { type FieldProblem, schemaProblems } from '../contracts/validate-event.ts';
import { EngineType } from '../contracts/values.ts';
import type { ProviderRef } from './sql/find-run.ts';
import type { EventQuery, NewRun, WindowQuery } from './store.ts';

const o = Type.Optional;
const compiled = <T extends TSchema>(schema: T): Validator => Compile(schema) as unknown as Validator;

const newRun = compiled(
  Type.Object({
    runId: KeyPart,
    tenantId: Id,
    projectId: Id,
    environmentId: Id,
    planId: KeyPart,
    planVersion: KeyPart,
    runRequestId: o(Id),
    trigger: o(Type.Object({ type: Id, ref: Id, playbookPath: o(Id) })),
    parentRunId: o(KeyPart),
    retryOf: o(KeyPart),
    engine: o(EngineType),
  }),
);
const providerRef = compiled(Type.Object({ provider: Id, workflowId: Id, providerRunId: Id }));
/** A tree index takes entries of up to a third of a page. */
const MAX_INDEXED_BYTES = 2600;

/** What a database would refuse in its own words, or take and not give back, is refused here. */
export function checkNewRun(run: NewRun): void {
  const problems = newRun.Check(run) ? [] : schemaProblems(newRun, run, '');
  if (problems.length === 0) {
    const scope = [run.tenantId, run.projectId, run.environmentId];
    if (tooLong(scope))
      problems.push({ path: '/tenantId', message: 'is too long together with project and environment' });
    // The contract joins these with |, so another scope could otherwise ask for the same request.
    if (run.runRequestId !== undefined && scope.some((part) => part.includes('|'))) {
      problems.push({
        path: '/runRequestId',
        message: 'cannot be used where tenant, project or environment holds a |',
      });
    }
  }
  refuseIf(problems, 'The run');
}

export function checkProviderRef(ref: ProviderRef): void {
  const problems = providerRef.Check(ref) ? [] : schemaProblems(providerRef, ref, '');
  if (problems.length === 0 && tooLong([ref.provider, ref.workflowId, ref.providerRunId])) {
    problems.push({ path: '/workflowId', message: 'is too long together with provider and providerRunId' });
  }
  refuseIf(problems, 'The provider reference');
}

export function checkEventQuery(query: EventQuery): void {
  checkSequence('afterSeq', query.afterSeq);
  checkSequence('throughSeq', query.throughSeq);
  if (query.entity !== undefined && !isStorableText(query.entity)) {
    throw new AppError('USAGE', 'An entity must be a text that can be stored');
  }
}

const time = compiled(UtcTime);

export function checkWindowQuery(query: WindowQuery): void {
  for (const [name, value] of Object.entries({ from: query.from, to: query.to, after: query.after?.persistedAt })) {
    if (name === 'after' && query.after === undefined) continue;
    if (!time.Check(value)) throw new AppError('USAGE', `${name} must be a UTC time of RFC 3339, not ${String(value)}`);
  }
  if (query.after) checkSequence('after.runSeq', query.after.runSeq);
  for (const id of [query.tenantId, query.after?.runId]) {
    if (id !== undefined && !isStorableText(id)) throw new AppError('USAGE', 'An id must be a text that can be stored');
  }
}

export function checkSequence(name: string, value: number | undefined, least = 0): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return;
  throw new AppError('USAGE', `${name} must be a whole number from ${least} on, not ${String(value)}`);
}

/** Postgres text holds neither NUL nor half a surrogate pair; no run can have such an id. */
export const isStorableText = (text: unknown): text is string =>
  typeof text === 'string' && !text.includes('\0') && !/\p{Surrogate}/u.test(text);

const tooLong = (parts: readonly string[]): boolean => Buffer.byteLength(parts.join('')) > MAX_INDEXED_BYTES;

function refuseIf(problems: readonly FieldProblem[], subject: string): void {
  if (problems.length === 0) return;
  const text = problems.map((problem) => `${problem.path} ${problem.message}`).join('; ');
  throw new AppError('SCHEMA_VALIDATION_FAILED', `${subject} is not valid: ${text}`, { problems });
}
