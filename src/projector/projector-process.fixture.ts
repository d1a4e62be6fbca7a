// A projector in a process of its own. With `hang` it stops for ever in the middle of its first batch, claims in hand.
import { PostgresStore } from '../store/postgres-store.ts';
import { createProjector } from './projector.ts';

const { url, hang } = JSON.parse(process.argv[2] ?? '{}') as { url: string; hang?: boolean };
const say = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);

const store = await PostgresStore.open({ url });
const real = store.projections;
const projections: typeof real = {
  ...real,
  claim: (runKeys, work) =>
    real.claim(runKeys, (claim) =>
      work({
        stands: claim.stands,
        loadStates: (keys) => claim.loadStates(keys),
        readTails: (requests) => claim.readTails(requests),
        async save(rows, alerts) {
          await claim.save(rows, alerts);
          if (!hang || rows.length === 0) return;
          say({ type: 'hanging', runKeys: rows.map((row) => row.runKey) });
          await new Promise(() => {});
        },
      }),
    ),
};
const projector = createProjector({
  store: { projections },
  pollMs: 10,
  onError: (error) => say({ type: 'error', error: String(error) }),
});
projector.start();
say({ type: 'started' });
process.on('SIGTERM', async () => {
  await projector.stop();
  say({ type: 'stopped', ...projector.report() });
  await store.close();
  process.exit(0);
});
// Nothing else keeps the process alive while it hangs.
setInterval(() => {}, 1000);
