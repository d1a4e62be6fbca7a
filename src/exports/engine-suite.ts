export { type EngineFactory, type EngineUnderTest, engineSuite } from '../testing/engine.suite.ts';
export { engineTools } from '../testing/engine-tools.ts';
