/** An event that a producer was told is stored. */
export interface Acknowledged {
  readonly runId: string;
  readonly key: string;
  readonly eventId: string;
  readonly runSeq: number;
  readonly persistedAt: string;
}

/** What a producer says: what it is about to send, and what it was answered. */
export type Said =
  | { readonly kind: 'created'; readonly runId: string }
  | { readonly kind: 'try'; readonly runId: string; readonly keys: readonly string[] }
  | { readonly kind: 'stored'; readonly events: readonly Acknowledged[] }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string };

/** Numbers that come again with the same seed. */
export function mulberry32(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
