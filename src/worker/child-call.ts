import { createHash } from 'node:crypto';
import type { Task } from '../contracts/plan.ts';
import type { ErrorInfo, StoredValue } from '../contracts/values.ts';
import type { Redactor } from '../lib/redact.ts';
import type { ArtifactStore, CallPlace, ToolOutcome } from '../tools/tool.ts';
import { loadValue } from './store-result.ts';
import type { UnitHost } from './unit-host.ts';

/** A child run that stands for a call: the step waits for it and goes on with its outcome. */
export class AwaitChild extends Error {
  readonly childRunId: string;
  readonly details: Record<string, unknown>;

  constructor(childRunId: string, details: Record<string, unknown>) {
    super('the step waits for a child run');
    this.childRunId = childRunId;
    this.details = details;
  }
}

interface ChildCall {
  readonly host: UnitHost;
  readonly artifacts: ArtifactStore;
  readonly redactor: Redactor;
  readonly task: Task;
  readonly input: Record<string, unknown>;
  readonly place: CallPlace;
}

/** A child run has the id that follows from its call, so that it is started once however often the call is delivered. */
export async function callChild({ host, artifacts, redactor, task, input, place }: ChildCall): Promise<ToolOutcome> {
  const childRunId = childRunIdOf(place);
  const recorded = await host.recorded();
  const wait = recorded.find(
    ({ eventType, payload }) => eventType === 'WaitStarted' && payload?.['childRunId'] === childRunId,
  );
  const ended = wait && recorded.find(({ eventType, entity }) => eventType === 'WaitEnded' && entity === wait.entity);
  if (!ended) {
    const given = isObject(input['input']) ? input['input'] : isObject(input['payload']) ? input['payload'] : {};
    const child = task.child ?? { path: String(input['path']) };
    const details = { child, workload: redactor.redact(given), entity: place.entity };
    const returnStep = input['return_step'];
    throw new AwaitChild(childRunId, typeof returnStep === 'string' ? { ...details, returnStep } : details);
  }
  const { outcome, result, error } = ended.payload as { outcome: string; result?: StoredValue; error?: ErrorInfo };
  if (outcome === 'done') {
    return { status: 'ok', result: result === undefined ? null : await loadValue(artifacts, result) };
  }
  const { category, code, message, retryable } = error ?? {
    category: 'child',
    code: 'CHILD_RUN_FAILED',
    message: 'The child run did not complete.',
    retryable: false,
  };
  return { status: 'error', error: { kind: category, code, message, retryable } };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The child that the call had when it was made for the first time, in the first run of a chain of retries and at the first attempt. A
 * later child stands for the same call: under this id it finds what became of the writes of the one before.
 */
export function firstChildRunId(rootRunId: string, entity: string): string {
  return childRunIdOf({ runId: rootRunId, entity: entity.replace(/@\d+$/, '@1'), attempt: 1 });
}

/** A UUID that follows from the call: the same call has the same child. */
function childRunIdOf(place: Pick<CallPlace, 'runId' | 'entity' | 'attempt'>): string {
  const hash = createHash('sha256').update(`${place.runId}|${place.entity}|${place.attempt}`).digest('hex');
  const variant = ((Number.parseInt(hash[16]!, 16) & 3) | 8).toString(16);
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-4${hash.slice(13, 16)}-${variant}${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
}
