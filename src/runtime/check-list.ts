import { AppError } from '../contracts/errors.ts';
import { RUN_STATUSES } from '../contracts/states.ts';
import { didYouMean } from '../lib/closest-name.ts';
import type { ListOptions } from './create-runtime.ts';

const OPTIONS: Readonly<Record<keyof ListOptions, true>> = {
  statuses: true,
  planId: true,
  children: true,
  limit: true,
  before: true,
};

/** A list that leaves out what was asked for, or shows what was not, looks like the right one: what is not known is refused. */
export function checkList(options: ListOptions): void {
  const wrong = (message: string, details = {}): AppError => new AppError('USAGE', message, details);
  if (typeof options !== 'object' || options === null) throw wrong('The options of a list are an object.');
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(OPTIONS, name)) continue;
    const known = Object.keys(OPTIONS);
    throw wrong(`A list has no option '${name}'${didYouMean(name, known) || `; it has ${known.join(', ')}.`}`);
  }
  const { statuses, planId, limit, before } = options;
  const isKnown = (status: unknown): boolean => (RUN_STATUSES as readonly unknown[]).includes(status);
  if (statuses !== undefined && !(Array.isArray(statuses) && statuses.every(isKnown)))
    throw wrong(`\`statuses\` is a list of ${RUN_STATUSES.join(', ')}.`);
  if (planId !== undefined && typeof planId !== 'string') throw wrong('`planId` is a text.');
  if (limit !== undefined && !(Number.isInteger(limit) && limit >= 1))
    throw wrong(`\`limit\` is a whole number from 1 on, not ${limit}.`);
  if (before !== undefined && !/^\d{1,15}$/.test(before))
    throw wrong('before takes what `next` of the page before said.', { before });
}
