const ABSENT: unique symbol = Symbol('absent');
type Undo<K, V> = Map<K, V | typeof ABSENT>;

/**
 * A persistent map after Baker's rerooting: the newest version owns a plain Map, every older version holds what to
 * undo to get from its successor to itself. Changing the newest version costs what a Map costs, and an old version
 * stays a correct value; reading it moves the Map there, at the price of the changes in between.
 *
 * Changes that name the `owner` which made the version happen in place (the undo list of the version before grows
 * instead), so that a fold over many events makes one version, not thousands. Nobody else can do the same, because
 * the owner is an object that ends with the fold.
 *
 * Iteration order is not part of the value (rerooting may change it): sort what has to have an order.
 */
export class VersionedMap<K, V> {
  #map: Map<K, V> | undefined;
  #next: VersionedMap<K, V> | undefined;
  /** One change is kept in two fields, several in a list: most versions differ by one. */
  #key: K | undefined;
  #value: V | typeof ABSENT | undefined;
  #undo: Undo<K, V> | undefined;
  /** Who may change this version in place, and the undo list of the version before it, if there is one. */
  #owner: object | undefined;
  #before: Undo<K, V> | undefined;

  private constructor(map: Map<K, V>, owner: object | undefined, before: Undo<K, V> | undefined) {
    this.#map = map;
    this.#owner = owner;
    this.#before = before;
  }

  static empty<K, V>(): VersionedMap<K, V> {
    return new VersionedMap<K, V>(new Map(), undefined, undefined);
  }

  static from<K, V>(entries: Iterable<readonly [K, V]>): VersionedMap<K, V> {
    return new VersionedMap<K, V>(new Map(entries), undefined, undefined);
  }

  get size(): number {
    return (this.#map ?? this.#reroot()).size;
  }

  get(key: K): V | undefined {
    return (this.#map ?? this.#reroot()).get(key);
  }

  has(key: K): boolean {
    return (this.#map ?? this.#reroot()).has(key);
  }

  /** A copy of the entries, because a later change may move the Map while a caller walks it. */
  entries(): [K, V][] {
    return [...(this.#map ?? this.#reroot())];
  }

  values(): V[] {
    return [...(this.#map ?? this.#reroot()).values()];
  }

  set(key: K, value: V, owner?: object): VersionedMap<K, V> {
    const map = this.#map ?? this.#reroot();
    if (owner !== undefined && owner === this.#owner) {
      if (this.#before !== undefined) remember(this.#before, map, key);
      map.set(key, value);
      return this;
    }
    // A version made from an empty one gets a Map of its own: a shared empty map must not keep a long history alive.
    if (map.size === 0) return new VersionedMap<K, V>(new Map([[key, value]]), owner, undefined);
    const old = read(map, key);
    map.set(key, value);
    return this.#handOver(map, key, old, owner);
  }

  delete(key: K, owner?: object): VersionedMap<K, V> {
    const map = this.#map ?? this.#reroot();
    if (!map.has(key)) return this;
    if (owner !== undefined && owner === this.#owner) {
      if (this.#before !== undefined) remember(this.#before, map, key);
      map.delete(key);
      return this;
    }
    const old = read(map, key);
    map.delete(key);
    return this.#handOver(map, key, old, owner);
  }

  #handOver(map: Map<K, V>, key: K, old: V | typeof ABSENT, owner: object | undefined): VersionedMap<K, V> {
    const undo: Undo<K, V> | undefined = owner && new Map([[key, old]]);
    const next = new VersionedMap<K, V>(map, owner, undo);
    this.#leave(next);
    if (undo) this.#undo = undo;
    else {
      this.#key = key;
      this.#value = old;
    }
    return next;
  }

  /** Gives the Map away. Whoever does may not be changed in place any more: another version is told from it now. */
  #leave(next: VersionedMap<K, V>): void {
    this.#map = undefined;
    this.#next = next;
    this.#owner = undefined;
    this.#before = undefined;
  }

  /** Moves the Map to this version. Iterative, because a chain may be as long as a log. */
  #reroot(): Map<K, V> {
    const path: VersionedMap<K, V>[] = [];
    let at: VersionedMap<K, V> = this;
    while (at.#map === undefined) {
      path.push(at);
      at = at.#next as VersionedMap<K, V>;
    }
    const map = at.#map;
    for (let i = path.length - 1; i >= 0; i--) {
      const version = path[i] as VersionedMap<K, V>;
      at.#leave(version);
      if (version.#undo) {
        const redo: Undo<K, V> = new Map();
        for (const [key, value] of version.#undo) {
          redo.set(key, read(map, key));
          write(map, key, value);
        }
        at.#undo = redo;
        version.#undo = undefined;
      } else {
        const key = version.#key as K;
        at.#key = key;
        at.#value = read(map, key);
        write(map, key, version.#value as V | typeof ABSENT);
        version.#key = undefined;
        version.#value = undefined;
      }
      version.#map = map;
      version.#next = undefined;
      at = version;
    }
    return map;
  }
}

function read<K, V>(map: Map<K, V>, key: K): V | typeof ABSENT {
  const value = map.get(key);
  return value !== undefined || map.has(key) ? (value as V) : ABSENT;
}

function write<K, V>(map: Map<K, V>, key: K, value: V | typeof ABSENT): void {
  if (value === ABSENT) map.delete(key);
  else map.set(key, value);
}

function remember<K, V>(undo: Undo<K, V>, map: Map<K, V>, key: K): void {
  if (!undo.has(key)) undo.set(key, read(map, key));
}
