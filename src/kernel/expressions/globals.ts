import { type Callable, integerArgument } from './callable.ts';
import { mappingFrom } from './filters/mapping-filters.ts';
import { NamespaceValue } from './local-values.ts';
import { range } from './operators.ts';
import { ownValue, setOwn } from './values.ts';

/** Functions. `apply` gets no value. */
export const GLOBALS: Readonly<Record<string, Callable>> = {
  range: {
    params: ['start', 'stop', 'step'],
    required: 1,
    summary: '`range(3)`, `range(1, 4)`, `range(10, 0, -2)`: a list of whole numbers.',
    apply: (ev, _value, [first, second, step]) => {
      const a = integerArgument(ev, first, 'start');
      if (second === undefined) return range(ev, 0, a, 1);
      return range(ev, a, integerArgument(ev, second, 'stop'), integerArgument(ev, step, 'step', 1));
    },
  },
  dict: {
    params: ['mapping'],
    variadic: true,
    summary: '`dict(a=1)`, `dict(other, a=1)`, `dict(pairs)`: a mapping.',
    apply: (ev, _value, args, keywords) => {
      const result = mappingFrom(ev, args[0]);
      for (const key of Object.keys(keywords)) setOwn(result, key, ownValue(keywords, key));
      return result;
    },
  },
  namespace: {
    params: ['mapping'],
    variadic: true,
    summary: 'Names that `{% set ns.x = 1 %}` can change inside a loop; gone when the evaluation ends.',
    apply: (ev, _value, args, keywords) => {
      const space = new NamespaceValue();
      const initial = mappingFrom(ev, args[0]);
      for (const key of Object.keys(initial)) space.set(key, ownValue(initial, key));
      for (const key of Object.keys(keywords)) space.set(key, ownValue(keywords, key));
      return space;
    },
  },
};

const NO_CLOCK = 'templates have no clock, so that a run can be replayed; read a time from the event or from a task';
const NO_CHANCE = 'templates have no randomness, so that a run can be replayed; make the value in a task';

/** Functions that people know from elsewhere and that cannot exist here. */
export const REFUSED_GLOBALS: Readonly<Record<string, string>> = {
  now: NO_CLOCK,
  utcnow: NO_CLOCK,
  today: NO_CLOCK,
  strftime_now: NO_CLOCK,
  random: NO_CHANCE,
  uuid4: NO_CHANCE,
  uuid: NO_CHANCE,
  lipsum: NO_CHANCE,
  lookup: 'templates have no input or output; read it in a task',
  open: 'templates have no input or output; read it in a task',
  env: 'templates have no environment; use the workload or the keychain',
  cycler: 'use `loop.cycle(a, b)` inside a loop',
  joiner: 'use the filter `join`',
  caller: 'use a macro with arguments',
  super: 'templates have no parent',
};
