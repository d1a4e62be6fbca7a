import type { RunEventRecord } from '../contracts/envelope.ts';
import { parseEntity, unitEntity } from '../kernel/entity-path.ts';

/** A write whose outcome nobody knows. */
export interface LostWrite {
  /** The step, or `step/index` for an iteration. */
  readonly step: string;
  readonly operation: string | undefined;
  readonly target: string | undefined;
}

type Payload = Readonly<Record<string, unknown>>;

/** What became of the writes of a run, built from its events in order. */
export class RunWrites {
  /** Those that wait for a person, by the wait. */
  readonly open = new Map<string, LostWrite>();
  /** Those that may have happened or not, by their keys. */
  readonly unknown = new Map<string, LostWrite>();
  readonly #announced = new Map<string, Pick<LostWrite, 'operation' | 'target'>>();

  take({ eventType, entity }: RunEventRecord, payload: Payload): void {
    if (entity === undefined) return;
    const { key } = payload as { key?: string };
    switch (eventType) {
      case 'WaitStarted':
        this.#takeWait(entity, payload['details'] as Payload | undefined);
        break;
      case 'WaitEnded':
        this.open.delete(entity);
        break;
      case 'EffectAttempted':
        this.#announced.set(key!, payload as Pick<LostWrite, 'operation' | 'target'>);
        break;
      case 'EffectUnknown': {
        const { operation, target } = this.#announced.get(key!) ?? {};
        this.unknown.set(key!, { step: stepOf(entity), operation, target });
        break;
      }
      case 'EffectSucceeded':
      case 'EffectFailed':
        this.unknown.delete(key!);
        break;
    }
  }

  #takeWait(entity: string, details: Payload | undefined): void {
    if (details?.['reason'] !== 'EFFECT_UNKNOWN') return;
    const { key, operation, target } = details as { key?: string; operation?: string; target?: string };
    const write = { step: entity.slice(0, entity.lastIndexOf('/wait:')), operation, target };
    this.open.set(entity, write);
    // A retry finds what an earlier run has announced.
    if (key !== undefined) this.unknown.set(key, write);
  }
}

function stepOf(entity: string): string {
  const path = parseEntity(entity);
  return path ? unitEntity(path.stepId, path.iteration) : entity;
}
