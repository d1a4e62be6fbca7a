// Contenders and their server as children of slow-fsync: node --import tsx slow-disk-process.ts OPTIONS
import { benchServer } from '../harness.ts';
import { ENTRIES, measure, openAll, type Sample } from './compare.ts';
import { ContenderClient } from './contender-client.ts';
import type { SlowDiskOptions } from './slow-disk.ts';

const { labels, concurrencies, rounds, ms } = JSON.parse(process.argv[2]!) as SlowDiskOptions;
const tell = (message: { progress?: string; samples?: Sample[] }): Promise<void> =>
  new Promise((resolve) => {
    process.send!(message, () => resolve());
  });

const server = await benchServer();
try {
  await tell({ progress: 'opening contenders' });
  const opened = await openAll(
    server,
    ENTRIES.filter(({ label }) => labels.includes(label)),
  );
  const samples: Sample[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const concurrency of concurrencies) {
      for (const each of opened) {
        await tell({ progress: `round ${round}/${rounds}: ${each.entry.label} at ${concurrency}` });
        samples.push(await measure(server, each, concurrency, ms));
      }
    }
  }
  await tell({ samples });
} finally {
  await ContenderClient.closeAll();
  await server.close();
}
process.disconnect();
