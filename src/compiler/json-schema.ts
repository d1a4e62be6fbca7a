import { PlaybookForm, StepForm, TaskForm, WorkbookForm } from './playbook-schema.ts';
import { TOOL_FORMS, type ToolForm } from './tool-forms.ts';

type JsonSchema = { [key: string]: unknown };

/** The playbook language as a JSON Schema for editors: completion, descriptions, and a first look at mistakes. */
export function playbookJsonSchema(): JsonSchema {
  const playbook = plain(PlaybookForm);
  const properties = playbook['properties'] as { [key: string]: JsonSchema };
  properties['workflow'] = { ...properties['workflow'], items: { $ref: '#/$defs/step' } };
  properties['workbook'] = { ...properties['workbook'], items: { $ref: '#/$defs/workbookTask' } };
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Runledger playbook',
    ...playbook,
    $defs: {
      step: withTool(plain(StepForm), pipeline()),
      workbookTask: withTool(plain(WorkbookForm), { $ref: '#/$defs/task' }),
      task: taskSchema(),
      ...Object.fromEntries(Object.entries(TOOL_FORMS).map(([kind, form]) => [`tool_${kind}`, toolSchema(kind, form)])),
    },
  };
}

function withTool(schema: JsonSchema, tool: JsonSchema): JsonSchema {
  const properties = schema['properties'] as { [key: string]: JsonSchema };
  const description = properties['tool']?.['description'];
  return { ...schema, properties: { ...properties, tool: { description, ...tool } } };
}

/** One task, or a list in which each is a task or `label: task`. */
function pipeline(): JsonSchema {
  const task = { $ref: '#/$defs/task' };
  const labelled = {
    type: 'object',
    minProperties: 1,
    maxProperties: 1,
    not: { required: ['kind'] },
    additionalProperties: task,
    description: 'label: task',
  };
  return { anyOf: [task, { type: 'array', items: { anyOf: [task, labelled] } }] };
}

function taskSchema(): JsonSchema {
  const schema = plain(TaskForm);
  const properties = schema['properties'] as { [key: string]: JsonSchema };
  const kinds = Object.keys(TOOL_FORMS);
  const kind = {
    anyOf: [{ enum: kinds }, { type: 'string', description: 'A tool of your own.' }],
    description: 'The tool.',
  };
  return {
    type: 'object',
    description: schema['description'],
    required: ['kind'],
    properties: { ...properties, kind, spec: { ...properties['spec'], additionalProperties: true } },
    allOf: kinds.map((name) => ({
      if: { properties: { kind: { const: name } }, required: ['kind'] },
      then: { $ref: `#/$defs/tool_${name}` },
    })),
  };
}

function toolSchema(kind: string, form: ToolForm): JsonSchema {
  const aliases = Object.entries(form.aliases ?? {}).map(([name, field]) => [
    name,
    `Another spelling of \`${field}\`.`,
  ]);
  const fields = [...Object.entries(form.fields), ...aliases].map(([name, description]) => [name, { description }]);
  const common = Object.keys(TaskForm.properties).map((name) => [name, true]);
  return {
    type: 'object',
    title: kind,
    description: form.summary,
    properties: { ...Object.fromEntries(common), ...Object.fromEntries(fields), kind: { const: kind } },
    ...(form.open ? {} : { additionalProperties: false }),
  };
}

/** The schema as plain data, so that changes to it leave the forms alone. */
function plain(schema: object): JsonSchema {
  return JSON.parse(JSON.stringify(schema)) as JsonSchema;
}
