import type { PlanPosition } from './compile.ts';

const PLACE = / \(line \d+, column \d+ of (\/[^\s()]*)\)$/;

/**
 * The message of an error that a template had while a plan ran, with the line of the playbook instead of the place in
 * the plan. What the positions do not know stays as it is.
 */
export function locateError(message: string, positions: Readonly<Record<string, PlanPosition>>): string {
  const pointer = PLACE.exec(message)?.[1];
  for (let at = pointer ?? ''; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    const position = Object.hasOwn(positions, at) ? positions[at] : undefined;
    if (position) return message.replace(PLACE, () => ` (${position.file}:${position.line}:${position.column})`);
  }
  return message;
}

/** Without the place in the plan: for a message that another plan's run handed on. */
export const withoutPlace = (message: string): string => message.replace(PLACE, '');
