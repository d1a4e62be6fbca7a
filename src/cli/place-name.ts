import { parseEntity } from '../kernel/entity-path.ts';
import { clean } from './terminal.ts';

/** Where a task stands, as people say it: `fetch`, `fetch/3` (an iteration), `fetch get` (a named task), `fetch try 2`. */
export function placeName(entity: string): string {
  const path = parseEntity(entity);
  if (!path) return clean(entity);
  const { stepId, iteration, part, occurrence = 1, attempt = 1 } = path;
  const words = [iteration === undefined ? stepId : `${stepId}/${iteration}`];
  // The compiler names what the author did not.
  if (part !== undefined && !/^task_\d+$/.test(part)) words.push(part);
  if (occurrence > 1) words.push(`round ${occurrence}`);
  if (attempt > 1) words.push(`try ${attempt}`);
  return clean(words.join(' '));
}
