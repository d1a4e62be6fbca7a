import type { CallableTable } from '../callable.ts';
import { TESTS } from '../tests.ts';
import { eachFilters } from './each-filters.ts';
import { ENCODING_FILTERS } from './encoding-filters.ts';
import { LIST_FILTERS } from './list-filters.ts';
import { MAPPING_FILTERS } from './mapping-filters.ts';
import { NUMBER_FILTERS } from './number-filters.ts';
import { REGEX_FILTERS } from './regex-filters.ts';
import { TEXT_FILTERS } from './text-filters.ts';
import { TIME_FILTERS } from './time-filters.ts';

export const FILTERS: CallableTable = {
  ...TEXT_FILTERS,
  ...NUMBER_FILTERS,
  ...LIST_FILTERS,
  ...eachFilters(
    () => FILTERS,
    () => TESTS,
  ),
  ...MAPPING_FILTERS,
  ...ENCODING_FILTERS,
  ...REGEX_FILTERS,
  ...TIME_FILTERS,
};

/** Filters of Jinja that would make a decision differ from its replay. */
export const REFUSED_FILTERS: Readonly<Record<string, string>> = {
  random: 'templates have no randomness, so that a run can be replayed; choose in a task',
  shuffle: 'templates have no randomness, so that a run can be replayed; shuffle in a task',
};
