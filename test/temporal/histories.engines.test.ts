import { expect, inject, test } from 'vitest';
import { createTestDatabase } from '../setup/database.ts';
import { recordHistories } from './histories.fixture.ts';
import { FORBIDDEN, historyFromJson, historyToJson } from './history-json.ts';
import { brokenHistories } from './replay-histories.fixture.ts';

test('WE-1d ES-6d what a run leaves in Temporal names units and times only, and is repeated by the workflow', async () => {
  const database = await createTestDatabase();
  try {
    const recorded = await recordHistories(inject('temporal'), database.url);
    expect(recorded.length).toBeGreaterThan(8);
    for (const { name, history } of recorded) {
      const text = historyToJson(history);
      expect([name, /unit\\":/.test(text), FORBIDDEN.exec(text)?.[0]]).toEqual([name, true, undefined]);
    }
    // As they are read from files.
    const histories = recorded.map(({ name, history }) => ({
      workflowId: name,
      history: historyFromJson(historyToJson(history)),
    }));
    expect(await brokenHistories(histories)).toEqual([]);
  } finally {
    await database.drop();
  }
}, 300_000);
