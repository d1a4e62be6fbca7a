import type { WorkUnit } from '../kernel/open-work.ts';

/** A unit as its row names it. */
export type UnitKey =
  | { readonly kind: 'step'; readonly stepId: string; readonly attempt: number }
  | { readonly kind: 'iteration'; readonly stepId: string; readonly attempt: number; readonly index: number }
  | { readonly kind: 'loopEnd'; readonly stepId: string; readonly attempt: number }
  | { readonly kind: 'wait'; readonly entity: string }
  /** The end of the grace that steps in flight have after a cancellation or a failure. */
  | { readonly kind: 'grace' }
  /** A signal that child runs must get too. */
  | { readonly kind: 'relay'; readonly signalType: string; readonly signalId: string };

/** The row's name of a unit. `@` cannot stand in a step's name, so the last one begins the attempt. */
export function unitKey(unit: UnitKey | WorkUnit): string {
  switch (unit.kind) {
    case 'step':
      return `s:${unit.stepId}@${unit.attempt}`;
    case 'iteration':
      return `i:${unit.stepId}@${unit.attempt}/${unit.index}`;
    case 'loopEnd':
      return `e:${unit.stepId}@${unit.attempt}`;
    case 'wait':
      return `w:${unit.entity}`;
    case 'grace':
      return 'g:';
    case 'relay':
      return `x:${unit.signalType}:${unit.signalId}`;
  }
}

/** Undefined for a unit that a newer version made. */
export function parseUnit(key: string): UnitKey | undefined {
  const rest = key.slice(2);
  const at = rest.lastIndexOf('@');
  const stepId = rest.slice(0, at);
  const tail = rest.slice(at + 1);
  switch (key.slice(0, 2)) {
    case 's:':
      return { kind: 'step', stepId, attempt: Number(tail) };
    case 'i:': {
      const [attempt, index] = tail.split('/');
      return { kind: 'iteration', stepId, attempt: Number(attempt), index: Number(index) };
    }
    case 'e:':
      return { kind: 'loopEnd', stepId, attempt: Number(tail) };
    case 'w:':
      return { kind: 'wait', entity: rest };
    case 'g:':
      return { kind: 'grace' };
    case 'x:': {
      const colon = rest.indexOf(':');
      return { kind: 'relay', signalType: rest.slice(0, colon), signalId: rest.slice(colon + 1) };
    }
    default:
      return undefined;
  }
}

/** The row of a loop's counters. */
export const loopKey = (stepId: string, attempt: number): string => `${stepId}@${attempt}`;
