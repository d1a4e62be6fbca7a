import pg from 'pg';
import { afterAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from './database.ts';

const databases: TestDatabase[] = [];
afterAll(() => Promise.all(databases.map((database) => database.drop())));

async function names(url: string, statement: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(statement)).rows;
  } finally {
    await client.end();
  }
}

test('databases that are made at once are apart from each other', async () => {
  const made = await Promise.all([createTestDatabase(), createTestDatabase(), createTestDatabase({ empty: true })]);
  databases.push(...made);
  const [first, second] = made;
  await names(first!.url, 'CREATE TABLE only_here (id int)');
  expect(await names(first!.url, `SELECT to_regclass('only_here') IS NOT NULL AS found`)).toEqual([{ found: true }]);
  expect(await names(second!.url, `SELECT to_regclass('only_here') IS NOT NULL AS found`)).toEqual([{ found: false }]);
});

test('a dropped database is gone even if somebody is still connected', async () => {
  const database = await createTestDatabase();
  const client = new pg.Client({ connectionString: database.url });
  client.on('error', () => undefined);
  await client.connect();
  await database.drop();
  await expect(names(database.url, 'SELECT 1')).rejects.toMatchObject({ code: '3D000' });
  await client.end().catch(() => undefined);
});
