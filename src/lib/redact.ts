/**
 * Replaces resolved secrets wherever they turn up: in text and in JSON, as they are and as they look after the encodings that
 * tools and servers use. What is found is cut out with all that overlaps it, so that two secrets side by side leave no rest.
 */
export class Redactor {
  readonly #forms = new Set<string>();
  readonly #whole = new Set<string>();
  #pattern: RegExp | undefined;
  #longest = 0;

  /** Adds every secret text of a resolved value. Fields of a mapping that only say where something is are not secret. */
  add(secret: unknown): void {
    for (const text of secretTexts(secret)) this.#addText(text);
  }

  get isEmpty(): boolean {
    return this.#forms.size === 0 && this.#whole.size === 0;
  }

  /** Characters of a text stream that must be held back, because a secret may begin in them. */
  get holdBack(): number {
    return Math.max(this.#longest - 1, 0);
  }

  text(text: string): string {
    if (this.#whole.has(text)) return REDACTED;
    if (text.length < MIN_LENGTH || !this.#matcher()?.test(text)) return text;
    let redacted = '';
    let from = 0;
    for (const [start, end] of this.#found(text)) {
      redacted += `${text.slice(from, start)}${REDACTED}`;
      from = end;
    }
    return redacted + text.slice(from);
  }

  /** The same value where nothing was found. Keys are values too: a mapping can be keyed by a token. */
  redact<T>(value: T): T {
    return this.isEmpty ? value : (this.#walk(value) as T);
  }

  /** For text that arrives in pieces: `write` gives what is safe to pass on, `end` the rest. */
  stream(): { write(chunk: string): string; end(): string } {
    let held = '';
    return {
      write: (chunk) => {
        held += chunk;
        const found = this.#found(held);
        // Never cut inside of a secret that is already whole.
        let cut = Math.max(held.length - this.holdBack, 0);
        for (const [start, end] of found) if (start < cut && end > cut) cut = start;
        const ready = held.slice(0, cut);
        held = held.slice(cut);
        return this.text(ready);
      },
      end: () => {
        const rest = this.text(held);
        held = '';
        return rest;
      },
    };
  }

  #addText(text: string): void {
    if (text.trim() === '') return;
    // Replacing every `no` or `42` would make logs unreadable and tell nobody anything: short ones only as a whole value.
    if (text.length < MIN_LENGTH) {
      this.#whole.add(text);
      return;
    }
    for (const form of formsOf(text)) {
      if (form.length < MIN_LENGTH) continue;
      this.#forms.add(form);
      this.#longest = Math.max(this.#longest, form.length);
    }
    this.#pattern = undefined;
  }

  /** One pass that says whether any form occurs; where it does not, which is nearly always, that is all. */
  #matcher(): RegExp | undefined {
    if (this.#forms.size === 0) return undefined;
    this.#pattern ??= new RegExp(
      [...this.#forms].map((form) => form.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|'),
    );
    return this.#pattern;
  }

  #found(text: string): [number, number][] {
    const found: [number, number][] = [];
    for (const form of this.#forms) {
      for (let at = text.indexOf(form); at >= 0; at = text.indexOf(form, at + 1)) found.push([at, at + form.length]);
    }
    found.sort(([a], [b]) => a - b);
    const merged: [number, number][] = [];
    for (const [start, end] of found) {
      const last = merged.at(-1);
      if (last && start <= last[1]) last[1] = Math.max(last[1], end);
      else merged.push([start, end]);
    }
    return merged;
  }

  #walk(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value);
    if (typeof value === 'number' || typeof value === 'bigint') {
      const text = String(value);
      const redacted = this.text(text);
      return redacted === text ? value : redacted;
    }
    if (Array.isArray(value)) {
      const items = value.map((item) => this.#walk(item));
      return items.every((item, i) => item === value[i]) ? value : items;
    }
    if (typeof value !== 'object' || value === null) return value;
    let changed = false;
    const entries = Object.entries(value).map(([key, item]) => {
      const entry = [this.text(key), this.#walk(item)] as const;
      changed ||= entry[0] !== key || entry[1] !== item;
      return entry;
    });
    return changed ? Object.fromEntries(entries) : value;
  }
}

const REDACTED = '[redacted]';
const MIN_LENGTH = 4;
const MIN_LINE_LENGTH = 12;
/** Where something is and what it is called. Taking these out of every event would hide what a run did. */
const OPEN_FIELDS: ReadonlySet<string> = new Set([
  'host',
  'port',
  'user',
  'username',
  'database',
  'dbname',
  'db_name',
  'schema',
  'sslmode',
  'type',
  'scheme',
  'header',
  'region',
  'account',
]);

function* secretTexts(value: unknown, key?: string): Generator<string> {
  if (key !== undefined && OPEN_FIELDS.has(key.toLowerCase())) return;
  if (typeof value === 'string') yield* partsOf(value);
  else if (typeof value === 'number' || typeof value === 'bigint') yield String(value);
  else if (Array.isArray(value)) for (const item of value) yield* secretTexts(item, key);
  else if (typeof value === 'object' && value !== null) {
    for (const [name, item] of Object.entries(value)) yield* secretTexts(item, name);
  }
}

/** The text, the password of a URL, and the lines of a key: logs come line by line. */
function* partsOf(text: string): Generator<string> {
  yield text;
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text) && URL.canParse(text)) {
    const { password } = new URL(text);
    if (password !== '') {
      yield password;
      yield safely(() => decodeURIComponent(password)) ?? password;
    }
  }
  if (text.includes('\n')) {
    for (const line of text.split(/\r?\n/)) if (line.length >= MIN_LINE_LENGTH && !line.startsWith('-----')) yield line;
  }
  const token = /^(?:bearer|basic|token) (.+)$/i.exec(text)?.[1];
  if (token !== undefined) yield token;
}

function formsOf(text: string): Set<string> {
  const bytes = Buffer.from(text);
  const encoded = safely(() => encodeURIComponent(text)) ?? text;
  const json = JSON.stringify(text).slice(1, -1);
  const forms = new Set([
    text,
    json,
    JSON.stringify(json).slice(1, -1),
    json.replaceAll('/', '\\/'),
    asciiJson(text),
    encoded,
    encoded.replaceAll('%20', '+'),
    encoded.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    new URLSearchParams([['', text]]).toString().slice(1),
    escapeHtml(text),
    bytes.toString('hex'),
    bytes.toString('hex').toUpperCase(),
  ]);
  if (text.length >= MIN_LENGTH * 2) {
    for (const form of base64Cores(bytes)) {
      forms.add(form);
      forms.add(form.replaceAll('+', '-').replaceAll('/', '_'));
    }
  } else forms.add(bytes.toString('base64'));
  return forms;
}

/**
 * Base64 of something that holds the secret, such as `user:password`. A byte's place among three decides how it is spelt, so
 * there are three spellings; the characters at the ends, which depend on the neighbours, are left off.
 */
function base64Cores(bytes: Buffer): string[] {
  return [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    const from = Math.ceil((shift * 8) / 6);
    const to = Math.floor(((shift + bytes.length) * 8) / 6);
    return text.slice(from, to);
  });
}

function asciiJson(text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

function safely<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}
