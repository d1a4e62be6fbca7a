import { Client, Connection } from '@temporalio/client';
import { expect, inject, test } from 'vitest';
import { SEARCH_ATTRIBUTES, startTemporal } from './temporal.ts';

test('a killed Temporal server carries on from its file, on the same address', async () => {
  const server = await startTemporal();
  try {
    const first = server.pid;
    const workflow = { args: [], taskQueue: 'nobody', workflowId: 'kept' };
    await withClient(server.address, (client) => client.workflow.start('anything', workflow));
    await server.kill();
    expect(() => process.kill(first, 0)).toThrow('ESRCH');
    await server.restart();
    const { status } = await withClient(server.address, (client) => client.workflow.getHandle('kept').describe());
    expect(status.name).toBe('RUNNING');
    expect(server.pid).not.toBe(first);
  } finally {
    await server.stop();
  }
  expect(() => process.kill(server.pid, 0)).toThrow('ESRCH');
});

test('the shared Temporal server takes a workflow with the search attributes of a run', async () => {
  const searchAttributes = Object.fromEntries(SEARCH_ATTRIBUTES.map((name) => [name, [`a ${name}`]]));
  const workflow = { args: [], taskQueue: 'nobody', workflowId: 'with attributes', searchAttributes };
  await withClient(inject('temporal').address, async (client) => {
    const handle = await client.workflow.start('anything', workflow);
    expect((await handle.describe()).searchAttributes).toMatchObject(searchAttributes);
    await handle.terminate();
  });
});

async function withClient<T>(address: string, use: (client: Client) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({ address });
  try {
    return await use(new Client({ connection }));
  } finally {
    await connection.close();
  }
}
