import { AppError } from '../contracts/errors.ts';
import type { RootReference } from '../kernel/expressions/compile-context.ts';
import { compileTemplate } from '../kernel/expressions/compile-template.ts';
import { hasTemplate } from '../kernel/expressions/scan-blocks.ts';
import type { FormReader, Path } from './form-reader.ts';
import { isText, type Json, type Located, type LocatedMap, type LocatedScalar, toJson } from './located.ts';
import type { Scope } from './scopes.ts';

type TextNode = LocatedScalar & { readonly value: string };

type Checked = { readonly references: readonly RootReference[] } | { readonly error: AppError };
const CURE = '; declare it under `workload`, or read it from ctx, args or a step';
/** Templates repeat: the same ten conditions stand in a thousand steps. */
const CACHE_SIZE = 5_000;

/** Checks that templates parse and that they start from names that exist where they stand. */
export class TemplateChecker {
  readonly #reader: FormReader;
  readonly #cache = new Map<string, Checked>();

  constructor(reader: FormReader) {
    this.#reader = reader;
  }

  /** A value whose texts may be templates. `pointer` is its place in the plan. */
  value(node: Located, path: Path, pointer: string, scope: Scope): Json {
    return toJson(node, pointer, (text, at) => this.text(text, path, at, scope));
  }

  text(node: TextNode, path: Path, pointer: string, scope: Scope): string {
    if (!hasTemplate(node.value)) return node.value;
    this.#reader.mark(pointer, node);
    this.#check(node, node.value, path, scope);
    return node.value;
  }

  /** A condition: true, false, a template, or a bare expression, which is the same as one in braces. */
  condition(owner: LocatedMap, path: Path, pointer: string, scope: Scope): string | boolean | undefined {
    const node = owner.entries.get('when')?.value;
    if (node === undefined) return undefined;
    if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value;
    if (!isText(node) || node.value.trim() === '') {
      return this.#reader.wrong(node, path, 'a condition such as "{{ ctx.ready }}", or true or false');
    }
    this.#reader.mark(pointer, node);
    const source = hasTemplate(node.value) ? node.value : `{{ ${node.value.trim()} }}`;
    this.#check(node, source, path, scope);
    return source;
  }

  /** A number, or a template that gives one. */
  amount(read: number | TextNode | undefined, path: Path, pointer: string, scope: Scope): number | string | undefined {
    if (read === undefined || typeof read === 'number') return read;
    return this.text(read, path, pointer, scope);
  }

  /** Text that is data here: only a look at the keychain is refused, because it would look like a reference and be none. */
  data(node: Located, path: Path): Json {
    return toJson(node, '', (text) => {
      if (hasTemplate(text.value)) {
        const checked = this.#compile(text.value);
        const reference =
          'references' in checked ? checked.references.find(({ name }) => name === 'keychain') : undefined;
        if (reference) this.#keychain(text, path, reference.offset);
      }
      return text.value;
    });
  }

  #check(node: TextNode, source: string, path: Path, scope: Scope): void {
    const checked = this.#compile(source);
    // A bare condition was put into braces, which moved it.
    const shift = source === node.value ? 0 : '{{ '.length;
    if ('error' in checked) {
      const { offset } = checked.error.details;
      const where = this.#place(node, typeof offset === 'number' ? offset - shift : 0);
      this.#reader.problem('TEMPLATE_SYNTAX', where, path, withoutPlace(checked.error.message));
      return;
    }
    for (const { name, offset, isGuarded } of checked.references) {
      if (scope.has(name) || (isGuarded && name !== 'keychain')) continue;
      if (name === 'keychain') this.#keychain(node, path, offset - shift);
      else if (!this.#reader.problems.full) {
        const cure = this.#reader.suggest(name, scope.names()) ?? CURE;
        this.#reader.problem(
          'UNKNOWN_ROOT_NAME',
          this.#place(node, offset - shift),
          path,
          `${scope.what} sees no \`${name}\`${cure}`,
        );
      }
    }
  }

  #keychain(node: TextNode, path: Path, offset: number): void {
    const message = '`keychain` exists in the fields of a tool only; use it there, or name the credential with `auth`';
    this.#reader.problem('KEYCHAIN_OUT_OF_PLACE', this.#place(node, offset), path, message);
  }

  #compile(source: string): Checked {
    const known = this.#cache.get(source);
    if (known) return known;
    let checked: Checked;
    try {
      checked = { references: compileTemplate(source).references };
    } catch (thrown) {
      if (!(thrown instanceof AppError)) throw thrown;
      checked = { error: thrown };
    }
    if (this.#cache.size < CACHE_SIZE) this.#cache.set(source, checked);
    return checked;
  }

  /**
   * The offset in the file of an offset in a text. The text is found again in the file by what follows the offset,
   * which holds for every YAML style as long as nothing there is escaped.
   */
  #place(node: TextNode, offset: number): number {
    const { value } = node;
    const start = Math.max(0, Math.min(offset, value.length - 1));
    const snippet = value.slice(start, start + 24).split('\n', 1)[0]!;
    if (snippet === '') return node.offset;
    const raw = this.#reader.source.text.slice(node.offset, node.end);
    let at = -1;
    for (
      let before = value.indexOf(snippet);
      before !== -1 && before <= start;
      before = value.indexOf(snippet, before + 1)
    ) {
      at = raw.indexOf(snippet, at + 1);
      if (at === -1) return node.offset;
    }
    return at === -1 ? node.offset : node.offset + at;
  }
}

/** The place inside the template says nothing to somebody who sees the line of the file. */
function withoutPlace(message: string): string {
  return message.replace(/ \(line \d+, column \d+ of the template\)$/, '');
}
