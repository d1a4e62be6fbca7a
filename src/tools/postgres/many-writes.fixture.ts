import { callContext } from '../../testing/call-context.ts';
import { PostgresTool } from './postgres-tool.ts';

/** A process that makes the same keyed writes each time it is started, until it is killed or done. */
const [url, count] = process.argv.slice(2) as [string, string];

const tool = new PostgresTool({ maxConnections: 4 });
let next = 0;
await Promise.all(
  Array.from({ length: 4 }, async () => {
    while (next < Number(count)) {
      const i = next++;
      const input = { auth: 'main', command: 'insert into written (n) values ($1)', params: [i] };
      const outcome = await tool.call(input, callContext({ secrets: { main: url }, idempotencyKey: `write-${i}` }));
      if (outcome.status === 'error') throw new Error(outcome.error.message);
    }
  }),
);
await tool.close();
console.log('done');
