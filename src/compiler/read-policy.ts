import { BACKOFFS, type RuleAction, type TaskPolicy } from '../contracts/plan.ts';
import { type CompileContext, compact } from './compile-context.ts';
import { at, type Path, shorten, under } from './form-reader.ts';
import { getField, isText, type Located, type LocatedMap } from './located.ts';
import { ACTIONS, ActionForm, ON_UNMATCHED, RetryForm, RuleForm, TaskPolicyForm } from './playbook-schema.ts';
import { readHook, readSet } from './read-assignments.ts';
import type { Scope } from './scopes.ts';

/** Where the task stands in its pipeline: jumps go to names of it. */
export interface PipelinePlace {
  readonly taskNames: readonly string[];
  readonly index: number;
  readonly before: Scope;
  readonly after: Scope;
}

type Rule = TaskPolicy['rules'][number];

/** The task's policy from `spec.policy` and from the older `retry`. */
export function readTaskPolicy(
  context: CompileContext,
  spec: LocatedMap | undefined,
  retry: { node: Located; path: Path } | undefined,
  path: Path,
  pointer: string,
  place: PipelinePlace,
): TaskPolicy | undefined {
  const { reader } = context;
  const policyPath = under(path, 'policy');
  const policy = reader.form(spec && getField(spec, 'policy'), policyPath, TaskPolicyForm);
  const old = retry && readRetry(context, retry.node, retry.path, pointer, place);
  if (!policy) return old && { rules: [...old, FAIL_ON_ERROR] };
  const rules = readRules(
    context,
    getField(policy, 'rules'),
    under(policyPath, 'rules'),
    pointer,
    place,
    old?.length ?? 0,
  );
  reader.word(getField(policy, 'mode'), under(policyPath, 'mode'), ['exclusive']);
  const hook = (name: 'before' | 'after' | 'finally') =>
    readHook(context, getField(policy, name), {
      path: under(policyPath, name),
      pointer: `${pointer}/policy/${name}`,
      scope: name === 'before' ? place.before : place.after,
      inPipeline: true,
    });
  return compact({
    rules: [...(old ?? []), ...rules, ...(old && rules.length === 0 ? [FAIL_ON_ERROR] : [])],
    onUnmatched: reader.word(getField(policy, 'on_unmatched'), under(policyPath, 'on_unmatched'), ON_UNMATCHED),
    before: hook('before'),
    after: hook('after'),
    finally: hook('finally'),
  });
}

/** With rules, an error that none of them matches would be passed over; the older spelling meant no such thing. */
const FAIL_ON_ERROR: Rule = { when: "{{ outcome.status == 'error' }}", then: { do: 'fail' } };

function readRules(
  context: CompileContext,
  node: Located | undefined,
  path: Path,
  pointer: string,
  place: PipelinePlace,
  first: number,
): Rule[] {
  const { reader, templates } = context;
  const list = reader.list(node, path);
  const rules: Rule[] = [];
  let closed: Path | undefined;
  for (const [i, item] of (list?.items ?? []).entries()) {
    const rulePath = at(path, i);
    const map = reader.item(item, rulePath, RuleForm, 'rule');
    if (!map) continue;
    if (closed !== undefined) {
      const message = `this rule is never tried, because ${closed} always matches; put the \`else\` last`;
      reader.problem('UNREACHABLE_RULE', map, rulePath, message);
    }
    const rulePointer = `${pointer}/policy/rules/${first + rules.length}`;
    reader.mark(rulePointer, map);
    const action = ruleAction(context, map, rulePath);
    if (!action) continue;
    const then = readAction(context, action.map, action.path, `${rulePointer}/then`, place);
    const when = templates.condition(map, under(rulePath, 'when'), `${rulePointer}/when`, place.after);
    if (when === undefined || when === true) closed ??= rulePath;
    if (then) rules.push(when === undefined || when === true ? { then } : { when, then });
  }
  return rules;
}

/** The mapping that holds the action: under `then`, under `else.then`, or `else` itself. */
function ruleAction(
  context: CompileContext,
  rule: LocatedMap,
  path: Path,
): { map: LocatedMap; path: Path } | undefined {
  const { reader } = context;
  const otherwise = getField(rule, 'else');
  if (otherwise) {
    for (const name of ['when', 'then']) {
      const extra = rule.entries.get(name);
      if (extra)
        reader.problem('CONFLICT', extra.keyOffset, under(path, name), `a rule has either \`else\` or \`${name}\``);
    }
    const elsePath = under(path, 'else');
    const map = reader.map(otherwise, elsePath);
    const inner = map && getField(map, 'then');
    if (!inner || !map) return map && { map, path: elsePath };
    reader.fields(map, elsePath, ['then']);
    const then = reader.map(inner, under(elsePath, 'then'));
    return then && { map: then, path: under(elsePath, 'then') };
  }
  const then = getField(rule, 'then');
  if (!then) {
    reader.missing(rule, path, 'then');
    return undefined;
  }
  const map = reader.map(then, under(path, 'then'));
  return map && { map, path: under(path, 'then') };
}

function readAction(
  context: CompileContext,
  map: LocatedMap,
  path: Path,
  pointer: string,
  place: PipelinePlace,
): RuleAction | undefined {
  const { reader, templates } = context;
  reader.fields(map, path, Object.keys(ActionForm.properties));
  const set = readSet(context, map, { path, pointer, scope: place.after, inPipeline: true });
  const named = getField(map, 'do');
  const action = named ? reader.word(named, under(path, 'do'), ACTIONS) : 'continue';
  if (!named && !set) reader.missing(map, path, 'do');
  if (!action) return undefined;
  const only = (name: string, owner: string): Located | undefined => {
    const entry = map.entries.get(name);
    if (!entry || action === owner) return entry?.value;
    reader.problem(
      'INVALID_STEP_SCHEMA',
      entry.keyOffset,
      under(path, name),
      `\`${name}\` belongs to \`do: ${owner}\``,
    );
    return undefined;
  };
  const amount = (name: string, minimum: number) => {
    const read = reader.amount(only(name, 'retry'), under(path, name), minimum);
    return templates.amount(read, under(path, name), `${pointer}/${name}`, place.after);
  };
  return compact({
    do: action,
    attempts: amount('attempts', 1),
    backoff: reader.word(only('backoff', 'retry'), under(path, 'backoff'), BACKOFFS),
    delay: amount('delay', 0),
    to: action === 'jump' ? jumpTarget(context, map, path, place) : void only('to', 'jump'),
    set,
  });
}

function jumpTarget(context: CompileContext, map: LocatedMap, path: Path, place: PipelinePlace): string | undefined {
  const { reader } = context;
  const node = getField(map, 'to');
  if (!isText(node)) {
    if (node) reader.wrong(node, under(path, 'to'), 'the name of a task');
    else reader.missing(map, path, 'to');
    return undefined;
  }
  if (node.value === 'previous') {
    const previous = place.taskNames[place.index - 1];
    if (previous !== undefined) return previous;
    reader.problem('JUMP_TO_NOWHERE', node, under(path, 'to'), 'the first task has no `previous` one');
    return undefined;
  }
  if (place.taskNames.includes(node.value)) return node.value;
  const near = reader.suggest(node.value, place.taskNames) ?? `; it has ${place.taskNames.slice(0, 20).join(', ')}`;
  reader.problem(
    'JUMP_TO_NOWHERE',
    node,
    under(path, 'to'),
    `this pipeline has no task '${shorten(node.value)}'${near}`,
  );
  return undefined;
}

const ERROR_WORD = /^[\w.:-]{1,128}$/;

/** `retry {max_attempts, retry_on, backoff}` as the rule that it means. */
function readRetry(
  context: CompileContext,
  node: Located,
  path: Path,
  pointer: string,
  place: PipelinePlace,
): Rule[] | undefined {
  const { reader, templates } = context;
  if (node.kind !== 'map') {
    reader.problem('PRE_V10', node, path, 'write rules with `do: retry` under `spec: {policy: {rules: [...]}}`');
    return undefined;
  }
  const map = reader.form(node, path, RetryForm);
  if (!map) return undefined;
  const amount = (found: { node: Located; path: Path } | undefined, field: string, minimum: number) =>
    templates.amount(
      reader.amount(found?.node, found?.path ?? path, minimum),
      found?.path ?? path,
      `${pointer}/policy/rules/0/then/${field}`,
      place.after,
    );
  const words = reader.ids(getField(map, 'retry_on'), under(path, 'retry_on')) ?? [];
  for (const word of words) {
    if (ERROR_WORD.test(word)) continue;
    reader.problem(
      'INVALID_STEP_SCHEMA',
      getField(map, 'retry_on')!,
      under(path, 'retry_on'),
      `'${shorten(word)}' is no kind or code of an error`,
    );
  }
  const statusNode = getField(map, 'retry_on_status');
  const statuses = (reader.list(statusNode, under(path, 'retry_on_status'))?.items ?? []).flatMap((item, i) => {
    const status = reader.count(item, at(under(path, 'retry_on_status'), i));
    return status === undefined ? [] : [status];
  });
  const tests = [
    ...(words.length > 0 ? [`outcome.error.kind in ${quoted(words)}`, `outcome.error.code in ${quoted(words)}`] : []),
    ...(statuses.length > 0 ? [`outcome.http.status in [${statuses.join(', ')}]`] : []),
  ];
  const condition = tests.length > 0 ? ` and (${tests.join(' or ')})` : '';
  const then = compact({
    do: 'retry' as const,
    attempts: amount(reader.oneOf(map, path, 'max_attempts'), 'attempts', 1),
    backoff: reader.word(getField(map, 'backoff'), under(path, 'backoff'), BACKOFFS),
    delay: amount(reader.oneOf(map, path, 'delay', 'backoff_seconds'), 'delay', 0),
  });
  return [{ when: `{{ outcome.status == 'error'${condition} }}`, then }];
}

const quoted = (words: readonly string[]): string => `[${words.map((word) => `'${word}'`).join(', ')}]`;
