import type { Client } from '@temporalio/client';

/** A history as the SDK has it in memory. */
export type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;

/** What stands in plans, values and secrets of the recorded runs, and must not stand in a history. */
export const FORBIDDEN = /marker-of|noop|probe|iter\.|workload|arcs|keychain/;

/**
 * A history as readable JSON, an event on each line: bytes, which are JSON texts, as the texts that they are. (The SDK's own writer and reader
 * demand that all of its packages share one copy of protobufjs, which npm does not promise.)
 */
export function historyToJson(history: History): string {
  const events = (history.events ?? []).map((event) => JSON.stringify(plain(event)));
  return `{"events":[\n${events.join(',\n')}\n]}`;
}

export function historyFromJson(text: string): History {
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null) return value;
    if ('$text' in value) return Buffer.from(String(value.$text));
    return '$bytes' in value ? Buffer.from(String(value.$bytes), 'base64') : value;
  }) as History;
}

function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) {
    const bytes = Buffer.from(value);
    const text = bytes.toString('utf8');
    return Buffer.from(text).equals(bytes) ? { $text: text } : { $bytes: bytes.toString('base64') };
  }
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  // 64-bit numbers of a history are times and counts.
  if ('toNumber' in value && typeof value.toNumber === 'function') return value.toNumber();
  const fields = Object.entries(value).filter(([, field]) => field !== null && field !== undefined);
  // Which machine it was is nobody's business: it stands in identities and in the names of workers' own queues.
  const isOwnQueue = 'normalName' in value && Boolean(value.normalName);
  const isMachine = (key: string): boolean => key === 'identity' || (isOwnQueue && key === 'name');
  return Object.fromEntries(fields.map(([key, field]) => [key, isMachine(key) ? 'worker' : plain(field)]));
}
