// Takes the start lock again and again; between taking and leaving it appends two lines, which nobody may separate.
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { withStartLock } from './start-lock.ts';

const [folder, journal, turns] = process.argv.slice(2) as [string, string, string];
for (let turn = 0; turn < Number(turns); turn++) {
  await withStartLock(folder, undefined, Date.now() + 60_000, async () => {
    appendFileSync(journal, `enter ${process.pid}\n`);
    await sleep(Math.random() * 3);
    appendFileSync(journal, `leave ${process.pid}\n`);
  });
}
