import type { CompileContext } from './compile-context.ts';
import { at, shorten, under } from './form-reader.ts';
import { getField, isText, type Json, type LocatedMap } from './located.ts';
import { KEYCHAIN_KINDS, KeychainForm } from './playbook-schema.ts';

/** An older name of a kind. */
const KIND_ALIASES: Readonly<Record<string, string>> = { secret_manager: 'secrets' };
const NEEDS: Readonly<Record<string, string>> = {
  credential: 'credential',
  secrets: 'map',
  static: 'map',
  bearer: 'token',
  oauth2: 'endpoint',
};

export function readKeychain(context: CompileContext, root: LocatedMap): Record<string, Json>[] {
  const { reader, templates } = context;
  const seen = new Set<string>();
  const list = reader.list(getField(root, 'keychain'), 'keychain');
  return (list?.items ?? []).flatMap((item, i) => {
    const path = at('keychain', i);
    const map = reader.item(item, path, KeychainForm, undefined, item.kind === 'map' ? [...item.entries.keys()] : []);
    if (!map) return [];
    const named = getField(map, 'name');
    const name = reader.id(named, under(path, 'name'));
    if (name !== undefined && seen.has(name)) {
      reader.problem(
        'DUPLICATE_NAME',
        named!,
        under(path, 'name'),
        `the keychain has another entry '${shorten(name)}'`,
      );
    }
    if (name !== undefined) seen.add(name);
    const entry = templates.value(map, path, `/keychain/${i}`, context.scope.at('keychain')) as Record<string, Json>;
    const node = getField(map, 'kind');
    if (isText(node) && Object.hasOwn(KIND_ALIASES, node.value)) entry['kind'] = KIND_ALIASES[node.value]!;
    else reader.word(node, under(path, 'kind'), KEYCHAIN_KINDS);
    const need = NEEDS[String(entry['kind'])];
    if (need !== undefined && !getField(map, need)) reader.missing(map, path, need);
    return [entry];
  });
}
