import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import { dumpSchema } from './dump-schema.ts';
import { Postgres } from './postgres.ts';

let database: TestDatabase;
let postgres: Postgres;
beforeAll(async () => {
  database = await createTestDatabase();
  postgres = new Postgres({ url: database.url });
});
afterAll(async () => {
  await postgres.close();
  await database.drop();
});

test('schema.sql is what the migrations make, on every version of Postgres', async () => {
  await expect(await dumpSchema(postgres)).toMatchFileSnapshot('./schema.sql');
});

test('functions that run with the rights of the owner fix their search path, and no function may be called by everybody', async () => {
  const text = `
    select p.proname as name from pg_proc p where p.pronamespace = 'runledger'::regnamespace
       and (has_function_privilege('public', p.oid, 'execute')
         or (p.prosecdef and not coalesce(p.proconfig, '{}') @> array['search_path=pg_catalog, pg_temp']))`;
  expect(await postgres.query({ text })).toEqual([]);
});
