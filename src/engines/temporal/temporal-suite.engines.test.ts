import { engineSuite } from '../../testing/engine.suite.ts';
import { openTemporalBench } from './temporal.fixture.ts';

engineSuite('Temporal, one worker', {
  provider: 'temporal',
  async open() {
    const bench = await openTemporalBench();
    return { engine: bench.runtime.engine, store: bench.store, plans: bench.runtime.plans, close: () => bench.close() };
  },
});
