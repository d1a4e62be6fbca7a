/**
 * Entity paths: `fetch` (step instance), `fetch#2` (second instance), `fetch/3` (iteration), `fetch/3/get:2@1`
 * (second run of task `get`, attempt 1), `fetch/get:1@1/try:2` (its effect, tried again after a crash), `fetch/wait:1`,
 * `signal/<id>`. `/ # @ :` are reserved in names.
 */
export interface EntityPath {
  readonly stepId: string;
  readonly iteration?: number;
  /** A task, or `wait`, `ctx` for an occurrence. */
  readonly part?: string;
  readonly occurrence?: number;
  readonly attempt?: number;
}

/** The name of the step in the plan: an instance without its number. */
export function stepNameOf(stepId: string): string {
  const hash = stepId.indexOf('#');
  return hash < 0 ? stepId : stepId.slice(0, hash);
}

/** The number of an instance: the first one has the bare name. */
export function instanceNumberOf(stepId: string): number {
  const hash = stepId.indexOf('#');
  return hash < 0 ? 1 : Number(stepId.slice(hash + 1)) || 1;
}

export function instanceId(name: string, number: number): string {
  return number <= 1 ? name : `${name}#${number}`;
}

/** The entity of a step or of one of its iterations: what a unit of work is about. */
export function unitEntity(stepId: string, iteration?: number): string {
  return iteration === undefined ? stepId : `${stepId}/${iteration}`;
}

export function occurrenceEntity(unit: string, kind: 'wait' | 'ctx', number: number): string {
  return `${unit}/${kind}:${number}`;
}

export function taskEntity(unit: string, task: string, run: number, attempt?: number): string {
  return attempt === undefined ? `${unit}/${task}:${run}` : `${unit}/${task}:${run}@${attempt}`;
}

/** The effect of a task's attempt. A crash may leave it half done: what is tried again is another occurrence. */
export function effectEntity(attempt: string, number: number): string {
  return number <= 1 ? attempt : `${attempt}/try:${number}`;
}

const PATH = /^([^/]+)(?:\/(\d+))?(?:\/([^/:@]+):(\d+)(?:@(\d+)(?:\/try:\d+)?)?)?$/;

/** Undefined for a path of another shape, such as one that a newer version wrote. */
export function parseEntity(entity: string): EntityPath | undefined {
  const match = PATH.exec(entity);
  if (!match) return undefined;
  const [, stepId, iteration, part, occurrence, attempt] = match;
  return {
    stepId: stepId as string,
    ...(iteration === undefined ? {} : { iteration: Number(iteration) }),
    ...(part === undefined ? {} : { part, occurrence: Number(occurrence) }),
    ...(attempt === undefined ? {} : { attempt: Number(attempt) }),
  };
}
