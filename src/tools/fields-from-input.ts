import type { TObject } from 'typebox';

/**
 * `input` of a task or its step is merged into what the tool gets: it fills fields that were left out. Its other keys are
 * values for the task's templates, which are rendered by now.
 */
export function fieldsFromInput(schema: TObject, input: Record<string, unknown>): Record<string, unknown> {
  const { input: extra, ...fields } = input;
  if (typeof extra !== 'object' || extra === null || Array.isArray(extra)) return fields;
  for (const [name, value] of Object.entries(extra)) {
    if (Object.hasOwn(schema.properties, name) && name !== 'input') fields[name] ??= value;
  }
  return fields;
}
