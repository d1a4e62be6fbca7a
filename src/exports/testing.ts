export type { Script, SimulatedCall, SimulatedOutcome } from '../testing/simulated-call.ts';
export { type Simulation, type SimulatorOptions, simulate } from '../testing/simulator.ts';
