import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { playbook, types } from '../test-bench.fixture.ts';
import { type EngineBench, openEngine } from './native.fixture.ts';

let bench: EngineBench;
let client: pg.Client;
beforeAll(async () => {
  bench = await openEngine({ worker: false, cancelGraceMs: 0 });
  client = new pg.Client({ connectionString: bench.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await bench.close();
});

/** Ends the connection of the next decision that is taken under a lock, after its statements and before its commit. */
function loseNextCommit(): { readonly tries: number } {
  const { work } = bench.store;
  const locked = work.locked.bind(work);
  const seen = { tries: 0 };
  work.locked = (run, afterSeq, decide) =>
    locked(run, afterSeq, async (missing, commit) => {
      const result = await decide(missing, commit);
      seen.tries += 1;
      if (seen.tries === 1) {
        await client.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and state = 'idle in transaction'`,
        );
      }
      return result;
    });
  return seen;
}

test('RQ-3.2b a cancellation whose commit was lost with its connection is decided again, on what is stored', async () => {
  const ref = await bench.start(playbook('- {step: only, tool: {kind: noop}}'));
  const seen = loseNextCommit();
  await bench.runtime.engine.cancelRun(ref);
  expect(seen.tries).toBe(2);
  const events = await bench.store.readEvents(ref.runId);
  expect(types(events)).toContain('RunCancelled');
  expect(await bench.store.findRun(ref.runId)).toMatchObject({ status: 'CANCELLED' });
});
