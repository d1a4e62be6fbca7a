import { readFileSync } from 'node:fs';
import Schema from 'typebox/schema';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { compileText, playbook, withTool } from './compile.fixture.ts';
import { playbookJsonSchema } from './json-schema.ts';

const validator = Schema.Compile(playbookJsonSchema() as never);
const fits = (text: string): boolean => validator.Check(parse(text));

describe('the schema that editors use', () => {
  test('is emitted as it is in the code', () => {
    const emitted = readFileSync(new URL('../../schemas/playbook.schema.json', import.meta.url), 'utf8');
    expect(emitted).toBe(`${JSON.stringify(playbookJsonSchema(), null, 2)}\n`);
  });

  test.each(['fetch-cities', 'older-spellings', 'child', 'cursor'])('takes the playbook %s', (name) => {
    expect(fits(readFileSync(new URL(`golden/${name}.yaml`, import.meta.url), 'utf8'))).toBe(true);
  });

  test.each([
    ['an unknown root key', `${withTool('{kind: noop}')}extra: 1\n`],
    ['an unknown step field', playbook('- {step: a, tol: {kind: noop}}')],
    ['an unknown field of a tool', withTool('{kind: http, url: u, metod: GET}')],
    ['an unknown action', withTool('{kind: noop, spec: {policy: {rules: [{then: {do: retri}}]}}}')],
    ['a next list', playbook('- {step: a, next: [{step: a}]}')],
    ['an unknown mode', playbook('- {step: a, next: {spec: {mode: all}, arcs: []}}')],
    ['a step without a name', playbook('- {tool: {kind: noop}}')],
  ])('refuses %s, as the compiler does', (_what, text) => {
    expect(fits(text)).toBe(false);
    expect(compileText(text).ok).toBe(false);
  });

  test('says of every field of the language what it is for', () => {
    const silent: string[] = [];
    const look = (schema: unknown, path: string): void => {
      if (typeof schema !== 'object' || schema === null) return;
      const { properties, $defs } = schema as { properties?: Record<string, unknown>; $defs?: Record<string, unknown> };
      for (const [name, field] of Object.entries(properties ?? {})) {
        const { description, $ref, const: fixed } = field as { description?: string; $ref?: string; const?: string };
        const isSilent = field !== true && !description && !$ref && fixed === undefined;
        const isObject = typeof field === 'object' && field !== null && ('properties' in field || 'items' in field);
        if (isSilent && !isObject) silent.push(`${path}/${name}`);
        look(field, `${path}/${name}`);
      }
      for (const [name, part] of Object.entries($defs ?? {})) look(part, `${path}/$defs/${name}`);
    };
    look(playbookJsonSchema(), '');
    expect(silent).toEqual([]);
  });
});
