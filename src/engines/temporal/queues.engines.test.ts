import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { folderArtifacts } from '../native/folder-artifacts.fixture.ts';
import { playbook } from '../test-bench.fixture.ts';
import { traces, until } from '../watching.fixture.ts';
import { openTemporalBench, type TemporalBench } from './temporal.fixture.ts';

let client: TemporalBench;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-queues-'));
  const temporal = { queuePerTenant: true, sweepAfterMs: 1000, workflow: { heartbeatMs: 1500, retryMs: 100 } };
  client = await openTemporalBench({ worker: false, artifacts: folderArtifacts(folder), temporal });
});
afterAll(async () => {
  await client?.close();
  rmSync(folder, { recursive: true, force: true });
});

const worker = (tenants: readonly string[]): Promise<TemporalBench> =>
  openTemporalBench({
    url: client.url,
    artifacts: folderArtifacts(folder),
    leaseMs: 20_000,
    temporal: { ...client.temporal, tenants },
    worker: { drainMs: 100 },
    onError: () => {},
  });

test('a queue per tenant keeps a tenant’s work from workers that do not poll for it', async () => {
  const other = await worker(['elsewhere']);
  try {
    const ref = await client.start(playbook('- {step: start, tool: {kind: noop}}'));
    expect(ref).toMatchObject({ taskQueue: `${client.temporal.taskQueue}-acme` });
    await sleep(1500);
    expect((await client.store.findRun(ref.runId))?.status).toBe('RUNNING');
    const own = await worker(['acme']);
    try {
      expect((await client.ended(ref)).at(-1)?.eventType).toBe('RunCompleted');
    } finally {
      await own.close();
    }
  } finally {
    await other.close();
  }
});

test('WE-1g a worker that stops hands its unit back at once, and another one finishes it', async () => {
  const file = join(folder, randomUUID());
  const first = await worker(['acme']);
  const second = worker(['acme']);
  try {
    const ref = await client.start(
      playbook(`- {step: start, tool: {kind: probe, file: ${file}, delay_ms: 3000, result: done}}`),
    );
    await until(() => traces(file).length === 1);
    await second;
    const [row] = await client.store.work.list(ref.runId);
    const leaver = row?.leaseOwner === first.runtime.worker?.owner ? first : await second;
    await leaver.runtime.close();
    const events = await client.ended(ref);
    // Long before the lease of twenty seconds would have ended.
    expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted' });
    const completed = events.find(({ eventType }) => eventType === 'StepCompleted');
    expect(completed?.engineAttemptId).toBe(traces(file).length);
  } finally {
    for (const each of [first, await second]) {
      await each.runtime.close();
      await each.store.close();
    }
  }
});
