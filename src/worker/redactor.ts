import type { Redactor } from './ports.ts';

/** Shorter values are ordinary words; taking them out would spoil every text and hide nothing. */
const MIN_LENGTH = 4;
const MASK = '[redacted]';

/** Replaces every resolved secret in texts, keys and values, also where it stands inside of a longer text. */
export class SecretRedactor implements Redactor {
  #secrets: string[] = [];

  add(secret: unknown): void {
    if (typeof secret === 'string') {
      if (secret.length < MIN_LENGTH || this.#secrets.includes(secret)) return;
      this.#secrets.push(secret);
      const encoded = encodeURIComponent(secret);
      if (encoded !== secret) this.#secrets.push(encoded);
      this.#secrets.push(Buffer.from(secret).toString('base64'));
      // The longest first: one secret may be part of another.
      this.#secrets.sort((a, b) => b.length - a.length);
    } else if (typeof secret === 'object' && secret !== null) {
      for (const value of Object.values(secret)) this.add(value);
    }
  }

  redact<T>(value: T): T {
    return this.#secrets.length === 0 ? value : (this.#clean(value) as T);
  }

  #clean(value: unknown): unknown {
    if (typeof value === 'string') {
      let text = value;
      for (const secret of this.#secrets) if (text.includes(secret)) text = text.replaceAll(secret, MASK);
      return text;
    }
    if (Array.isArray(value)) return value.map((item) => this.#clean(item));
    if (typeof value === 'object' && value !== null) {
      const entries = Object.entries(value).map(([key, item]) => [this.#clean(key) as string, this.#clean(item)]);
      return Object.fromEntries(entries);
    }
    return value;
  }
}
