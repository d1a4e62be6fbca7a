import type { Arc, PlanStep } from '../contracts/plan.ts';
import { hasTemplate } from '../kernel/expressions/scan-blocks.ts';
import { type CompileContext, compact } from './compile-context.ts';
import { at, type Path, shorten, under } from './form-reader.ts';
import { getField, isText, type Located, type LocatedMap } from './located.ts';
import { ArcForm, NEXT_MODES, NextForm, ON_NO_MATCH } from './playbook-schema.ts';
import { NEXT_LIST } from './pre-v10.ts';
import { readSet } from './read-assignments.ts';

export function readNext(context: CompileContext, step: LocatedMap, path: Path, pointer: string): PlanStep['next'] {
  const { reader } = context;
  const nextPath = under(path, 'next');
  const node = getField(step, 'next');
  if (node?.kind === 'list' || isText(node)) {
    reader.problem(
      'PRE_V10',
      node,
      nextPath,
      `a \`next\` ${isText(node) ? 'text' : 'list'} is the language before v10: ${NEXT_LIST}`,
    );
    return undefined;
  }
  const next = reader.form(node, nextPath, NextForm);
  const stepSpec = getField(step, 'spec');
  const older = stepSpec?.kind === 'map' ? stepSpec.entries.get('next_mode') : undefined;
  if (!next) {
    if (older) reader.word(older.value, under(path, 'spec.next_mode'), NEXT_MODES);
    return undefined;
  }
  const specPath = under(nextPath, 'spec');
  const specNode = getField(next, 'spec');
  const spec = specNode ? reader.map(specNode, specPath) : undefined;
  if (spec) reader.fields(spec, specPath, ['mode', 'on_no_match']);
  const newer = spec && getField(spec, 'mode');
  if (older && newer) {
    const message = '`spec.next_mode` is an older spelling of `next.spec.mode`; keep one of them';
    reader.problem('CONFLICT', older.keyOffset, under(path, 'spec.next_mode'), message);
  }
  const modePath = newer ? under(specPath, 'mode') : under(path, 'spec.next_mode');
  const arcs = readArcs(context, getField(next, 'arcs'), under(nextPath, 'arcs'), pointer);
  return compact({
    mode: reader.word(newer ?? older?.value, modePath, NEXT_MODES) ?? 'exclusive',
    onNoMatch: reader.word(spec && getField(spec, 'on_no_match'), under(specPath, 'on_no_match'), ON_NO_MATCH),
    arcs,
  });
}

function readArcs(context: CompileContext, node: Located | undefined, path: Path, pointer: string): Arc[] {
  const { reader, templates } = context;
  const scope = context.scope.at('arc');
  const arcs: Arc[] = [];
  for (const [i, item] of (reader.list(node, path)?.items ?? []).entries()) {
    const arcPath = at(path, i);
    const map = reader.item(item, arcPath, ArcForm, 'arc');
    if (!map) continue;
    const arcPointer = `${pointer}/next/arcs/${arcs.length}`;
    reader.mark(arcPointer, map);
    const target = readTarget(context, getField(map, 'step'), under(arcPath, 'step'));
    const args = readArgs(context, getField(map, 'args'), under(arcPath, 'args'));
    const when = templates.condition(map, under(arcPath, 'when'), `${arcPointer}/when`, scope);
    const arc = compact({
      step: target ?? '',
      // An arc without a condition and one that is always true are the same arc.
      when: when === true ? undefined : when,
      args: args ? templates.value(args, under(arcPath, 'args'), `${arcPointer}/args`, scope) : undefined,
      set: readSet(context, map, { path: arcPath, pointer: arcPointer, scope, inPipeline: false }),
    });
    arcs.push(arc);
  }
  return arcs;
}

/** `args` of several arcs are merged, so they must be a mapping, or a template that gives one. */
function readArgs(context: CompileContext, node: Located | undefined, path: Path): Located | undefined {
  if (node === undefined || node.kind === 'map' || (isText(node) && hasTemplate(node.value))) return node;
  return context.reader.wrong(node, path, 'a mapping, or a template that gives one');
}

/** The name of a step that exists. */
export function readTarget(context: CompileContext, node: Located | undefined, path: Path): string | undefined {
  const { reader, stepNames } = context;
  const name = reader.id(node, path);
  if (name === undefined || stepNames.has(name)) return name;
  const near = reader.suggest(name, stepNames) ?? '; add a step of that name, or correct the arc';
  reader.problem('ARC_TO_NOWHERE', node!, path, `there is no step '${shorten(name)}'${near}`);
  return undefined;
}
