import { AppError } from '../contracts/errors.ts';
import { didYouMean } from '../lib/closest-name.ts';
import type { Playbook, StartRunOptions } from './create-runtime.ts';

const OPTIONS: Readonly<Record<keyof StartRunOptions, true>> = {
  input: true,
  runId: true,
  requestId: true,
  by: true,
  trigger: true,
};
const SOURCES = ['file', 'text', 'plan'];

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What a program without types gets wrong: an option that is not known would be passed over, and the run be another one than was meant. */
export function checkStart(playbook: Playbook, options: StartRunOptions): void {
  const wrong = (message: string): AppError => new AppError('USAGE', message);
  if (typeof playbook === 'string') {
    if (/[\n]/.test(playbook)) throw wrong('A playbook is named by its file; its text is given as {text: ...}.');
  } else if (!isObject(playbook) || SOURCES.filter((name) => playbook[name as never] !== undefined).length !== 1) {
    throw wrong('A playbook is the name of a file, or an object with one of file, text and plan.');
  }
  if (!isObject(options)) throw wrong('The options of a run are an object, such as {input: {name: "Ada"}}.');
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(OPTIONS, name)) continue;
    const known = Object.keys(OPTIONS);
    throw wrong(`A run has no option '${name}'${didYouMean(name, known) || `; it has ${known.join(', ')}.`}`);
  }
  if (options.input !== undefined && !isObject(options.input))
    throw wrong('`input` is an object of values for the workload, such as {name: "Ada"}.');
}
