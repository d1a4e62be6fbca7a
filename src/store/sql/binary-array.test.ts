import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import { BinaryArray } from './binary-array.ts';

let database: TestDatabase;
let client: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

/** What the database reads, as it prints it. */
async function read(type: string, array: BinaryArray): Promise<string> {
  const { rows } = await client.query(`select ($1::${type}[])::text as value`, [array.done()]);
  return rows[0].value;
}

test('numbers arrive as they were, up to the largest that this language counts exactly', async () => {
  const bigints = new BinaryArray('bigint', 4, 32);
  for (const n of [0, 1, 2 ** 32 + 5, Number.MAX_SAFE_INTEGER]) bigints.bigint(n);
  expect(await read('bigint', bigints)).toBe('{0,1,4294967301,9007199254740991}');
  const integers = new BinaryArray('integer', 3, 12);
  for (const n of [0, -7, 2 ** 31 - 1]) integers.integer(n);
  expect(await read('integer', integers)).toBe('{0,-7,2147483647}');
  const smallints = new BinaryArray('smallint', 2, 4);
  for (const n of [-1, 32_767]) smallints.smallint(n);
  expect(await read('smallint', smallints)).toBe('{-1,32767}');
});

test('text needs no escapes, whatever is in it, and null is not the empty text', async () => {
  const items = ['plain', 'with "quotes", \\ and {braces}', '', null, 'ключ 🎉', 'NULL'];
  const texts = new BinaryArray('text', items.length, 200);
  for (const item of items) texts.text(item);
  const { rows } = await client.query('select $1::text[] as value', [texts.done()]);
  expect(rows[0].value).toEqual(items);
});

test('bytes are given as hex or as a character each', async () => {
  const bytes = new BinaryArray('bytea', 2, 8);
  bytes.text('00ff10ab', 'hex');
  bytes.text('\x00\xff\x10\xab', 'latin1');
  expect(await read('bytea', bytes)).toBe('{"\\\\x00ff10ab","\\\\x00ff10ab"}');
  const ids = new BinaryArray('uuid', 1, 16);
  ids.text('0123456789abcdef0123456789abcdef', 'hex');
  expect(await read('uuid', ids)).toBe('{01234567-89ab-cdef-0123-456789abcdef}');
});

test('an array may be empty', async () => {
  expect(await read('integer', new BinaryArray('integer', 0, 0))).toBe('{}');
});
