import type { Plan } from '../contracts/plan.ts';
import { type CompileContext, compact } from './compile-context.ts';
import { under } from './form-reader.ts';
import { getField, type Json, type Located, type LocatedMap } from './located.ts';
import { ADAPTERS, FALLBACKS } from './playbook-schema.ts';

interface MetadataPart {
  readonly fields: Omit<Plan['metadata'], 'planVersion'>;
  readonly version: string | undefined;
  readonly requires: readonly string[];
}

const KNOWN: ReadonlySet<string> = new Set([
  'name',
  'path',
  'version',
  'description',
  'requiresCapabilities',
  'fallbackBehavior',
  'targetAdapter',
]);

export function readMetadata(context: CompileContext, root: LocatedMap): MetadataPart {
  const { reader } = context;
  const node = getField(root, 'metadata');
  const map = node && reader.map(node, 'metadata');
  const field = (name: string): Located | undefined => map && getField(map, name);
  const keyPart = (name: string): string | undefined => {
    const value = reader.label(field(name), under('metadata', name));
    if (value?.includes('|')) {
      const message = `\`${name}\` is part of the keys of events and cannot hold \`|\`; write another character`;
      reader.problem('RESERVED_NAME', field(name)!, under('metadata', name), message);
    }
    return value;
  };
  const name = keyPart('name');
  const path = keyPart('path');
  if (map && name === undefined && path === undefined) reader.missing(map, 'metadata', 'name');
  const extra: Record<string, Json> = {};
  for (const { key, value } of map?.entries.values() ?? []) {
    if (!KNOWN.has(key)) extra[key] = context.templates.data(value, under('metadata', key));
  }
  return {
    fields: compact({
      planId: path ?? name ?? '',
      name: name ?? path ?? '',
      path,
      description: reader.text(field('description'), 'metadata.description'),
      fallbackBehavior: reader.word(field('fallbackBehavior'), 'metadata.fallbackBehavior', FALLBACKS),
      targetAdapter: reader.word(field('targetAdapter'), 'metadata.targetAdapter', ADAPTERS),
      extra: Object.keys(extra).length > 0 ? extra : undefined,
    }),
    version: keyPart('version'),
    requires: reader.ids(field('requiresCapabilities'), 'metadata.requiresCapabilities') ?? [],
  };
}
