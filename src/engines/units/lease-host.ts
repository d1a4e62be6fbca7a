import { AppError } from '../../contracts/errors.ts';
import type { EventDraft } from '../../kernel/commands.ts';
import { unitEntity } from '../../kernel/entity-path.ts';
import { faultPoint } from '../../lib/fault-point.ts';
import type { UnitHost, UnitPlace } from '../../worker/unit-host.ts';
import { type LeasedUnit, openingFirst } from './leased-unit.ts';

export interface HostRequest {
  readonly place: UnitPlace;
  readonly begun: readonly EventDraft[];
  readonly isRedelivered: boolean;
  readonly item?: unknown;
}

/** The step runner's host under a lease in the store. */
export function leaseHost(unit: LeasedUnit, { place, begun, isRedelivered, item }: HostRequest): UnitHost {
  const { view, held } = unit;
  const { work, store, owner, leaseMs } = unit.ports;
  const entity = unitEntity(place.stepId, place.index);
  return {
    view,
    place,
    item,
    begun,
    isRedelivered,
    engineAttempt: held.engineAttempt,
    signal: held.signal,
    record: async (facts) => {
      const events = unit.stamp(facts);
      const result = await work.commit({
        run: view.run,
        ...openingFirst(events),
        owner,
        leaseMs,
        work: [{ op: 'check', unit: held.unit, fence: held.fence }],
      });
      await faultPoint('record.after-commit');
      if (!result.ok) {
        if (result.reason !== 'EFFECT_TAKEN') held.lose();
        throw result.error;
      }
      // The attempt is in the log, but another delivery of this unit made it: this one must not call.
      const isOthers = events.some(
        ({ eventType, eventId }, i) => eventType === 'EffectAttempted' && result.receipts[i]!.eventId !== eventId,
      );
      if (isOthers) {
        held.lose();
        throw new AppError('LEASE_LOST', 'Another delivery of the same step has begun this effect.');
      }
      view.stored(events, result.receipts);
    },
    recorded: async () => {
      const records: EventDraft[] = [];
      for (let afterSeq = 0; ; ) {
        const page = await store.readEvents(view.run.runId, { entity, afterSeq, limit: 1000 });
        records.push(...(page.filter((r) => r.logicalAttemptId === place.attempt) as EventDraft[]));
        if (page.length < 1000) return records;
        afterSeq = page.at(-1)!.runSeq;
      }
    },
    ensureLease: async (millis) => {
      if (held.leaseUntil - performance.now() >= millis) return true;
      const from = performance.now();
      const asked = Math.ceil(millis + leaseMs);
      const [renewed] = await work.renew([held], asked);
      if (!renewed?.held) return false;
      held.leaseUntil = from + asked;
      return true;
    },
    isPaused: async () => (await store.findRun(view.run.runId))?.status === 'PAUSED',
    findReceipt: (key) => work.findReceipt(view.run.tenantId, key),
  };
}
