import type { CapabilityRow } from '../../compiler/validate-plan.ts';

/** What the native engine does itself. */
export const NATIVE_CAPABILITIES: CapabilityRow = {
  engine: 'native',
  capabilities: {
    'fan-out': { native: true },
    'fan-in': { native: true },
    timers: { native: true },
    'child-runs': { native: true },
    PAUSE: { native: true },
    CANCEL: { native: true },
  },
};
