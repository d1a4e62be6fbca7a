import type { TSchema } from 'typebox';

/**
 * The port of every tool: what a task of a playbook calls. A tool knows nothing of runs, logs, retries or policies; the
 * step runner does all of that around it, the same way for every tool and every engine.
 */

/** What a call does to the world. `undeclared` is code whose effect nobody stated: it runs behind a commit barrier. */
export type EffectClass = 'compute' | 'read' | 'write' | 'undeclared';

/** Where a call stands, for logs and messages. */
export interface CallPlace {
  readonly tenantId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly runId: string;
  readonly stepId: string;
  readonly entity: string;
  readonly attempt: number;
}

/** What a tool may use of its surroundings. */
export interface CallContext {
  readonly place: CallPlace;
  /** Aborts at the deadline and on cancellation; the reason tells which. The call must end soon afterwards. */
  readonly signal: AbortSignal;
  /** Milliseconds that the call may take; Infinity where no limit is set. */
  readonly timeoutMs: number;
  /** The effect's key of a write, for destinations that honour one. */
  readonly idempotencyKey?: string;
  /**
   * The class under which the call was let through; the tool's own `classify` where it is absent. A tool that can tell
   * must not do more than this allows: what was taken for a read has not passed the gate of writes.
   */
  readonly effectClass?: EffectClass;
  /** Output of the running call, line by line. Resolved secrets are redacted by the receiver. */
  readonly log: (stream: 'stdout' | 'stderr' | 'log', line: string) => void;
  readonly artifacts: ArtifactStore;
  /** The secret that `auth` or `credential` names, in the tool's own shape (a string or an object). */
  readonly secret: (name: string) => Promise<unknown>;
}

export interface ToolError {
  /** Which part of the world failed: http, postgres, python, timeout, cancelled, input, ... */
  readonly kind: string;
  /** A code that a policy can match: an error code of ours, an HTTP status, a SQLSTATE, an exception's name. */
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  /** What the destination asked for, such as Retry-After. */
  readonly retryAfterMs?: number;
  /** The write was sent and its answer was lost, so it may have happened. Absent: it did not. */
  readonly unknown?: true;
}

/** Every call yields exactly one outcome. Tools return it; what they throw becomes an error of kind `internal`. */
export type ToolOutcome = (
  | { readonly status: 'ok'; readonly result: unknown }
  | { readonly status: 'error'; readonly error: ToolError; readonly result?: unknown }
) & {
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly http?: { readonly status: number; readonly headers: Readonly<Record<string, string>> };
  readonly pg?: { readonly code: string };
  readonly py?: { readonly exception_type: string };
};

/** What a policy judges before a write, and what the receipt records. Names of fields, never their values. */
export interface ProposedAction {
  readonly operation: string;
  readonly target: string;
  readonly fields: readonly string[];
}

/** What is known of an effect whose outcome was lost. `unknown` is an honest answer: a person will be asked. */
export type Reconciliation =
  | { readonly found: 'happened'; readonly result: unknown }
  | { readonly found: 'absent' }
  | { readonly found: 'unknown'; readonly reason: string };

export interface Tool {
  readonly kind: string;
  /** The rendered fields. Closed: an unknown field is a mistake in the playbook. */
  readonly input: TSchema;
  /** The class of this call, from its rendered fields. */
  classify(input: Record<string, unknown>): EffectClass;
  propose(input: Record<string, unknown>): ProposedAction;
  call(input: Record<string, unknown>, context: CallContext): Promise<ToolOutcome>;
  /** The default key of a write: what makes this effect the same effect when it is tried again. */
  effectKey?(input: Record<string, unknown>, place: CallPlace): string;
  /** Whether a second call with the same key changes nothing more, because the destination or the operation sees to it. */
  honoursKey?(input: Record<string, unknown>): boolean;
  /** Asks the destination what became of a write. */
  reconcile?(input: Record<string, unknown>, context: CallContext): Promise<Reconciliation>;
  /** The task that undoes a write that happened; undefined where nothing can. */
  reverse?(input: Record<string, unknown>, result: unknown): Record<string, unknown> | undefined;
  /** Lets go of pools and processes. */
  close?(): Promise<void>;
}

/** What the log holds of an artifact, beside its kind. */
export interface StoredArtifact {
  readonly uri: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  /** When the retention of its kind ends; absent where it is kept. */
  readonly expiresAt?: string;
}

/** Where values live that are too large for the log. Content-addressed: the same bytes have one place. */
export interface ArtifactStore {
  readonly name: string;
  put(bytes: Uint8Array | AsyncIterable<Uint8Array>, kind: string): Promise<StoredArtifact>;
  /** Verifies the hash that the reference names; a missing or changed artifact is an error. */
  get(uri: string): Promise<Uint8Array>;
}
