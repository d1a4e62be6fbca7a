import type { EngineName } from '../contracts/values.ts';
import type { Capability } from './capabilities.ts';

/** How an engine has a capability. Nothing of it said: it cannot, and nothing stands in for it. */
export interface CapabilitySupport {
  /** The engine does it, in this way. */
  readonly native?: string | undefined;
  /** How it is done in place of the engine, and what a person may notice; for plans that say `emulate`. */
  readonly emulation?: string | undefined;
  /** What is lost without it, for plans that say `degrade`; absent if it cannot be left out. */
  readonly withoutIt?: string | undefined;
}

/** One engine of the matrix. */
export interface CapabilityRow {
  readonly engine: string;
  readonly capabilities: Readonly<Record<string, CapabilitySupport>>;
}

type Column = Readonly<Record<Capability, CapabilitySupport>>;

/** What the kernel decides and the log keeps is the same on every engine. */
const DECIDED = {
  'fan-in': { native: 'the kernel holds the tokens' },
  RETRY_STEP: { native: 'the kernel schedules the next attempt' },
  SKIP_STEP: { native: 'the kernel skips the attempt while it has not begun' },
} as const;

const native: Column = {
  ...DECIDED,
  'fan-out': { native: 'units of work, taken by any worker' },
  timers: { native: 'the store knows when a unit is due' },
  'child-runs': { native: 'a run of its own for each child' },
  'cursor-loops': { native: 'each iteration claims a frame for itself' },
  PAUSE: { native: 'nothing is handed out' },
  CANCEL: { native: 'the lease carries it to the abort signal of the call' },
  'long-runs': { native: 'a run has no history but its log' },
  'run-ahead': { native: 'a worker that holds all open work of a run goes on while it commits' },
};

const temporal: Column = {
  ...DECIDED,
  'fan-out': { native: 'activities' },
  timers: { native: 'timers of the workflow' },
  'child-runs': { native: 'a workflow of its own for each child' },
  'cursor-loops': { native: 'each iteration claims a frame for itself' },
  PAUSE: { native: 'the workflow starts no activity' },
  CANCEL: { native: 'the heartbeat of the activity carries it to the abort signal of the call' },
  'long-runs': { native: 'continue-as-new' },
  'run-ahead': { withoutIt: 'every step waits for the commit of the one before it' },
};

const conductor: Column = {
  ...DECIDED,
  'fan-out': { native: 'tasks that are forked dynamically' },
  timers: { native: 'tasks that call back when they are due' },
  'child-runs': { native: 'a workflow of its own for each child' },
  'cursor-loops': {},
  PAUSE: { emulation: 'tasks that were scheduled before can still be polled; the worker leaves them until RESUME' },
  CANCEL: {
    emulation: 'a task has no cancellation token; the worker asks the store with each renewal of its lease',
    withoutIt: 'the call in flight runs to its end, and its result is refused',
  },
  'long-runs': { withoutIt: 'all tasks of a run are in one record of the server, which has a limit' },
  'run-ahead': { withoutIt: 'every step waits for the commit of the one before it' },
};

const mock: Column = {
  ...DECIDED,
  'fan-out': { native: 'in any order that a seed gives' },
  timers: { native: 'a virtual clock' },
  'child-runs': { emulation: 'a script tells what the child gave' },
  'cursor-loops': { native: 'a script tells what was claimed' },
  PAUSE: { native: 'at a time that the script names' },
  CANCEL: { native: 'at a time that the script names' },
  'long-runs': { native: 'in memory' },
  'run-ahead': { withoutIt: 'every step waits for the commit of the one before it' },
};

/** Engine by capability: what is checked before a run starts, and what docs/capabilities.md shows. */
export const CAPABILITY_MATRIX: Readonly<Record<EngineName, CapabilityRow & { readonly capabilities: Column }>> = {
  native: { engine: 'native', capabilities: native },
  temporal: { engine: 'temporal', capabilities: temporal },
  conductor: { engine: 'conductor', capabilities: conductor },
  mock: { engine: 'mock', capabilities: mock },
};
