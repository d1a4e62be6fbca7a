import { inputProblem } from '../outcomes.ts';

/** Records of RFC 4180 CSV. An empty field is null, a quoted empty one is an empty text: that is how Postgres writes them. */
export function* parseCsv(text: string): Generator<(string | null)[]> {
  let at = text.startsWith('\ufeff') ? 1 : 0;
  let record: (string | null)[] = [];
  while (at < text.length) {
    if (text[at] === '"') {
      const { value, end } = quotedField(text, at);
      record.push(value);
      at = end;
    } else {
      const plain = /[^,\r\n]*/y;
      plain.lastIndex = at;
      const value = plain.exec(text)![0];
      if (value.includes('"')) throw inputProblem('the CSV has a quote in the middle of a field');
      record.push(value === '' ? null : value);
      at += value.length;
    }
    if (text[at] === ',') {
      at += 1;
      // A comma at the very end has an empty field behind it.
      if (at < text.length) continue;
      record.push(null);
    }
    if (text[at] === '\r') at += 1;
    if (text[at] === '\n') at += 1;
    yield record;
    record = [];
  }
}

function quotedField(text: string, start: number): { value: string; end: number } {
  let value = '';
  for (let at = start + 1; ; ) {
    const quote = text.indexOf('"', at);
    if (quote < 0) throw inputProblem('the CSV has a quote that nothing closes');
    value += text.slice(at, quote);
    at = quote + 1;
    if (text[at] !== '"') {
      if (at < text.length && !/[,\r\n]/.test(text[at]!)) throw inputProblem('the CSV has text behind a closing quote');
      return { value, end: at };
    }
    value += '"';
    at += 1;
  }
}

export function csvRecord(values: readonly unknown[]): string {
  return `${values.map(csvField).join(',')}\r\n`;
}

function csvField(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text === '' || /[",\r\n\ufeff]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
