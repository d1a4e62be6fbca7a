/** What every contender does: so many steps that do nothing, one after the other, in one run. */
export const STEPS = 10;

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly database: string;
}

export interface Setup {
  /** A database of its own on the Postgres that all contenders share. */
  readonly target: Target;
  /** For contenders that keep their state elsewhere. */
  readonly folder: string;
  /** Who asks for runs, who does them, or both in one process. */
  readonly role: 'both' | 'starter' | 'worker';
  readonly options: Readonly<Record<string, unknown>>;
  /** To be called when the first step of a run is called. */
  readonly onFirstStep: (id: string) => void;
  /** To be called at every step, by contenders that are asked for the pace within a run. */
  readonly onStep: () => void;
  /** Something went wrong that did not end a run. */
  readonly onError: (text: string) => void;
}

export interface Contender {
  /** One run to its end. */
  run(id: string): Promise<void>;
  /** Asks for a run and does not wait for it. */
  start(id: string): Promise<void>;
  close(): Promise<void>;
}

export type OpenContender = (setup: Setup) => Promise<Contender>;

/** Peers are installed beside the benchmarks, and have no types there that the project's own check could see. */
export async function loadPeer<T>(name: string): Promise<T> {
  return (await import(name)) as T;
}

export const urlOf = ({ host, port, user, database }: Target): string =>
  `postgresql://${user}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`;
