import { CATALOGUE } from '../../contracts/catalogue.ts';
import { type PreparedEvent, STEP_FACTS, STEP_NEEDS } from '../prepared-event.ts';

/** A fact of a step attempt that must be in the log already, or must not. */
export interface StepProbe {
  readonly type: number;
  readonly path: string;
  readonly attempt: number;
  readonly isStored: boolean;
}

/** What the events of one call ask of their run, put together. */
export interface PlainCall {
  /** Statuses of the run that allow all of them, one bit each. */
  readonly statuses: number;
  /** The status that they give; 0 where it stays. */
  readonly status: number;
  /** The position, from 1 on, of the last one that decisions must see; 0 where there is none. */
  readonly decided: number;
  readonly probes: readonly StepProbe[];
}

interface Slot {
  readonly path: string;
  readonly attempt: number;
  /** Facts of this call, facts that must be stored before it, and facts that must not; a bit for each of STEP_FACTS. */
  own: number;
  needed: number;
  barred: number;
}

/**
 * What append_core finds out event by event, for a call of which nothing was stored before and nothing is refused: then the
 * database need not go through the events. Undefined where the events contradict each other or one of them comes twice,
 * which is for append_core to answer.
 */
export function plainCall(events: readonly PreparedEvent[]): PlainCall | undefined {
  const keys = new Set<string>();
  const slots = new Map<string, Slot>();
  let statuses = 255;
  let status = 0;
  let decided = 0;
  for (const [i, { event, path, rule, isStepFact }] of events.entries()) {
    keys.add(event.idempotencyKey);
    if (status === 0) statuses &= rule;
    else if ((rule & status) === 0) return undefined;
    status = (rule >> 8) & 255 || status;
    if (rule & DECIDES) decided = i + 1;
    if (isStepFact && !addFact(slots, path, event.logicalAttemptId, rule)) return undefined;
  }
  if (keys.size < events.length) return undefined;
  return { statuses, status, decided, probes: [...slots.values()].flatMap(probesOf) };
}

const DECIDES = 1 << 29;

function addFact(slots: Map<string, Slot>, path: string, attempt: number, rule: number): boolean {
  const place = `${attempt}|${path}`;
  let slot = slots.get(place);
  if (!slot) {
    slot = { path, attempt, own: 0, needed: 0, barred: 0 };
    slots.set(place, slot);
  }
  const need = (rule >> 16) & 31;
  const bar = (rule >> 21) & 31;
  if (bar & slot.own) return false;
  slot.needed |= need & ~slot.own;
  slot.barred |= bar;
  slot.own |= 1 << (((rule >> 26) & 7) - 1);
  return (slot.needed & slot.barred) === 0;
}

function probesOf({ path, attempt, own, needed, barred }: Slot): StepProbe[] {
  const probes: StepProbe[] = [];
  for (let bit = 0; bit < STEP_FACTS.length; bit++) {
    const isStored = (needed & (1 << bit)) !== 0;
    // What is new by the unique key, or not there itself, was not there for anything that needs it.
    const isAbsent = barred & ~own & (1 << bit) && ((STEP_NEEDS[bit] as number) & (own | barred)) === 0;
    if (isStored || isAbsent) {
      probes.push({ type: CATALOGUE[STEP_FACTS[bit] as (typeof STEP_FACTS)[number]].code, path, attempt, isStored });
    }
  }
  return probes;
}
