import type { Loop } from '../contracts/plan.ts';
import { hasTemplate } from '../kernel/expressions/scan-blocks.ts';
import { type CompileContext, compact } from './compile-context.ts';
import { type Path, shorten, under } from './form-reader.ts';
import { getField, isText, type Json, type Located, type LocatedMap, toJson } from './located.ts';
import { CursorForm, FrameForm, LOOP_EXECS, LOOP_MODES, LoopForm, LoopSpecForm } from './playbook-schema.ts';
import { RESERVED_WORDS } from './scopes.ts';

const IDENTIFIER = /^[\p{L}_][\p{L}\p{N}_]*$/u;
const DEFAULT_ITERATOR = 'item';

/** The iterator's name, before the loop itself is read: the templates of the pipeline see it. */
export function iteratorName(step: LocatedMap): string | undefined {
  const loop = getField(step, 'loop');
  if (loop?.kind !== 'map') return undefined;
  const node = getField(loop, 'iterator');
  return isText(node) ? node.value : DEFAULT_ITERATOR;
}

export function readLoop(context: CompileContext, step: LocatedMap, path: Path, pointer: string): Loop | undefined {
  const { reader, templates } = context;
  const loopPath = under(path, 'loop');
  const map = reader.form(getField(step, 'loop'), loopPath, LoopForm, 'loop');
  if (!map) return undefined;
  const scope = context.scope.at('loop');
  const specPath = under(loopPath, 'spec');
  const spec = reader.form(getField(map, 'spec'), specPath, LoopSpecForm);
  const policyPath = under(specPath, 'policy');
  const policy = spec && getField(spec, 'policy');
  const policyMap = policy ? reader.map(policy, policyPath) : undefined;
  if (policyMap) reader.fields(policyMap, policyPath, ['exec']);
  const cursor = readCursor(context, map, loopPath, pointer);
  const mode = spelledTwice(context, map, spec, loopPath, 'mode');
  const word = reader.word(mode?.node, mode?.path ?? loopPath, LOOP_MODES) ?? (cursor ? 'cursor' : 'sequential');
  const inFlight = spelledTwice(context, map, spec, loopPath, 'max_in_flight');
  const frame = readFrame(context, spec, specPath, pointer);
  const list = readList(context, map, loopPath, pointer, word, cursor !== undefined);
  if (frame && word !== 'cursor') {
    reader.problem(
      'INVALID_STEP_SCHEMA',
      getField(spec!, 'frame')!,
      under(specPath, 'frame'),
      '`frame` belongs to `mode: cursor`',
    );
  }
  return compact({
    in: list,
    iterator: readIterator(context, map, loopPath),
    mode: word,
    maxInFlight:
      inFlight &&
      templates.amount(
        reader.amount(inFlight.node, inFlight.path, 1),
        inFlight.path,
        `${pointer}/loop/maxInFlight`,
        scope,
      ),
    exec: policyMap && reader.word(getField(policyMap, 'exec'), under(policyPath, 'exec'), LOOP_EXECS),
    cursor,
    frame,
  });
}

/** A setting that stands under `loop.spec`, or in older playbooks under `loop`. */
function spelledTwice(
  context: CompileContext,
  loop: LocatedMap,
  spec: LocatedMap | undefined,
  path: Path,
  name: string,
): { node: Located; path: Path } | undefined {
  const older = loop.entries.get(name);
  const newer = spec?.entries.get(name);
  if (older && newer) {
    const message = `\`loop.${name}\` is an older spelling of \`loop.spec.${name}\`; keep one of them`;
    context.reader.problem('CONFLICT', older.keyOffset, under(path, name), message);
  }
  if (newer) return { node: newer.value, path: under(path, `spec.${name}`) };
  return older && { node: older.value, path: under(path, name) };
}

function readList(
  context: CompileContext,
  map: LocatedMap,
  path: Path,
  pointer: string,
  mode: string,
  hasCursor: boolean,
): Json | undefined {
  const { reader, templates } = context;
  const given = getField(map, 'in');
  if (mode === 'cursor') {
    if (given)
      reader.problem('CONFLICT', given, under(path, 'in'), '`mode: cursor` draws from `loop.cursor`; remove `in`');
    if (!hasCursor) {
      reader.problem(
        'LOOP_WITHOUT_LIST',
        map,
        path,
        '`mode: cursor` needs `loop.cursor: {kind: postgres, auth: ..., claim: SQL}`',
      );
    }
    return undefined;
  }
  if (hasCursor) reader.problem('CONFLICT', map, path, '`loop.cursor` needs `spec: {mode: cursor}`');
  if (!given) {
    if (!hasCursor) reader.problem('LOOP_WITHOUT_LIST', map, path, 'the loop has no list; write `in: "{{ ... }}"`');
    return undefined;
  }
  const isList = given.kind === 'list' || (isText(given) && hasTemplate(given.value));
  if (!isList) {
    const found = isText(given)
      ? `'${shorten(given.value)}' is a text; write "{{ ${shorten(given.value.trim())} }}"`
      : 'this is no list';
    reader.problem(
      'LOOP_WITHOUT_LIST',
      given,
      under(path, 'in'),
      `\`in\` must be a list, or a template that gives one; ${found}`,
    );
    return undefined;
  }
  return templates.value(given, under(path, 'in'), `${pointer}/loop/in`, context.scope.at('loop'));
}

function readIterator(context: CompileContext, map: LocatedMap, path: Path): string {
  const { reader } = context;
  const node = getField(map, 'iterator');
  const name = reader.id(node, under(path, 'iterator'));
  if (name === undefined) return DEFAULT_ITERATOR;
  if (RESERVED_WORDS.has(name) || name === 'index' || name === 'parent') {
    reader.problem(
      'RESERVED_NAME',
      node!,
      under(path, 'iterator'),
      `'${name}' has a meaning of its own; choose another iterator`,
    );
  } else if (!IDENTIFIER.test(name)) {
    reader.problem(
      'RESERVED_NAME',
      node!,
      under(path, 'iterator'),
      `templates could not read '${shorten(name)}'; use letters, digits and _`,
    );
  }
  return name;
}

function readCursor(
  context: CompileContext,
  map: LocatedMap,
  path: Path,
  pointer: string,
): Record<string, Json> | undefined {
  const cursorPath = under(path, 'cursor');
  const cursor = context.reader.form(getField(map, 'cursor'), cursorPath, CursorForm);
  if (!cursor) return undefined;
  return context.templates.value(cursor, cursorPath, `${pointer}/loop/cursor`, context.scope.at('cursor')) as Record<
    string,
    Json
  >;
}

function readFrame(
  context: CompileContext,
  spec: LocatedMap | undefined,
  path: Path,
  pointer: string,
): Record<string, Json> | undefined {
  const { reader, templates } = context;
  const framePath = under(path, 'frame');
  const frame = reader.form(spec && getField(spec, 'frame'), framePath, FrameForm);
  if (!frame) return undefined;
  const values: Record<string, Json> = {};
  for (const { key, keyOffset, value } of frame.entries.values()) {
    const fieldPath = under(framePath, key);
    if (key === 'row_concurrency' && toJson(value, '') !== 1) {
      const message = 'rows of a frame run one after the other; `max_in_flight` says how many frames run at once';
      reader.problem('IGNORED_FIELD', keyOffset, fieldPath, message);
    }
    if (key === 'process') {
      const word = reader.word(value, fieldPath, ['row', 'frame']);
      if (word !== undefined) values[key] = word;
    } else if (Object.hasOwn(FrameForm.properties, key)) {
      const read = templates.amount(
        reader.amount(value, fieldPath),
        fieldPath,
        `${pointer}/loop/frame/${key}`,
        context.scope.at('loop'),
      );
      if (read !== undefined) values[key] = read;
    } else values[key] = toJson(value, '');
  }
  return values;
}
