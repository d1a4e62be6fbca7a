import { AppError } from '../contracts/errors.ts';
import { didYouMean } from '../lib/closest-name.ts';
import { jsonProblem } from '../lib/json-problem.ts';
import type { Playbook, StartRunOptions } from './create-runtime.ts';

const OPTIONS: Readonly<Record<keyof StartRunOptions, true>> = {
  input: true,
  runId: true,
  requestId: true,
  by: true,
  trigger: true,
};
const SOURCES = ['file', 'text', 'plan'];

const isTextOrNone = (value: unknown): boolean => value === undefined || typeof value === 'string';
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What a program without types gets wrong: an option that is not known would be passed over, and the run be another one than was meant. */
export function checkStart(playbook: Playbook, options: StartRunOptions): void {
  const wrong = (message: string): AppError => new AppError('USAGE', message);
  if (typeof playbook === 'string') {
    if (/[\n]/.test(playbook)) throw wrong('A playbook is named by its file; its text is given as {text: ...}.');
  } else if (!isObject(playbook) || SOURCES.filter((name) => playbook[name as never] !== undefined).length !== 1) {
    throw wrong('A playbook is the name of a file, or an object with one of file, text and plan.');
  } else {
    for (const name of ['file', 'text', 'name'])
      if (!isTextOrNone(playbook[name as never])) throw wrong(`\`${name}\` of a playbook is a text.`);
    if ('children' in playbook && playbook.children !== undefined && !Array.isArray(playbook.children))
      throw wrong('`children` of a playbook is a list of plans.');
  }
  if (!isObject(options)) throw wrong('The options of a run are an object, such as {input: {name: "Ada"}}.');
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(OPTIONS, name)) continue;
    const known = Object.keys(OPTIONS);
    throw wrong(`A run has no option '${name}'${didYouMean(name, known) || `; it has ${known.join(', ')}.`}`);
  }
  const { input, trigger } = options;
  if (input !== undefined && !isObject(input))
    throw wrong('`input` is an object of values for the workload, such as {name: "Ada"}.');
  // What JSON leaves out or changes would make it another run than was meant.
  const problem = input === undefined ? undefined : jsonProblem(input);
  if (problem) throw wrong(`\`input\` cannot be given to a run: at ${problem.path || '/'}, ${problem.message}.`);
  if (trigger !== undefined && !isObject(trigger)) throw wrong('`trigger` is an object, such as {type: "webhook"}.');
}
