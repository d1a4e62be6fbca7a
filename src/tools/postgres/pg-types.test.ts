import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import { callContext } from '../../testing/call-context.ts';
import { PostgresTool } from './postgres-tool.ts';

let database: TestDatabase;
const tool = new PostgresTool();
beforeAll(async () => {
  database = await createTestDatabase({ empty: true });
});
afterAll(async () => {
  await tool.close();
  await database.drop();
});

test.each([
  ['true', true],
  ['1::int2', 1],
  ['-5::int4', -5],
  ['9007199254740991::int8', 9007199254740991],
  ['9007199254740993::int8', '9007199254740993'],
  ['count(*)', 1],
  ["'12.50'::numeric", 12.5],
  ["'-0.00'::numeric", 0],
  ["'100000000000000000000'::numeric", '100000000000000000000'],
  ["'0.1234567890123456789'::numeric", '0.1234567890123456789'],
  ["'123456789012345'::numeric", 123456789012345],
  ["'1234567890123456'::numeric", '1234567890123456'],
  ["'NaN'::numeric", 'NaN'],
  ["'Infinity'::float8", 'Infinity'],
  ['1.5::float4', 1.5],
  ['0.1::float8', 0.1],
  ["'2024-02-29'::date", '2024-02-29'],
  ["'2024-02-29 10:20:30.123456'::timestamp", '2024-02-29T10:20:30.123456'],
  ["'2024-02-29 10:20:30.5+05:30'::timestamptz", '2024-02-29T04:50:30.5Z'],
  ["'infinity'::timestamptz", 'infinity'],
  ["'0044-03-15 12:00:00 BC'::timestamp", '0044-03-15 12:00:00 BC'],
  ["'0001-01-01 00:00:00+00'::timestamptz", '0001-01-01T00:00:00Z'],
  ["'10:20:30'::time", '10:20:30'],
  ["'1 day 2 hours'::interval", '1 day 02:00:00'],
  ['\'{"a": [1, null]}\'::jsonb', { a: [1, null] }],
  ["'[1, 2]'::json", [1, 2]],
  ["'null'::jsonb", null],
  ["'\\x00ff10'::bytea", 'AP8Q'],
  ["''::bytea", ''],
  ["'6a0f7c4e-4c4e-4f62-9d6e-0d0c7e6b7a11'::uuid", '6a0f7c4e-4c4e-4f62-9d6e-0d0c7e6b7a11'],
  ["'10.0.0.0/8'::cidr", '10.0.0.0/8'],
  ['null::int4', null],
  ["'{1,2,NULL}'::int8[]", [1, 2, null]],
  [
    "'{{1,2},{3,4}}'::int4[]",
    [
      [1, 2],
      [3, 4],
    ],
  ],
  ["'[2:3]={a,b}'::text[]", ['a', 'b']],
  ["array['a,b', 'c\"d', 'e\\f', '{g}', 'NULL', '', null]", ['a,b', 'c"d', 'e\\f', '{g}', 'NULL', '', null]],
  ['array[\'{"a": "}"}\'::jsonb]', [{ a: '}' }]],
  ["array['2024-02-29 10:00:00+00'::timestamptz]", ['2024-02-29T10:00:00Z']],
  ["'{}'::text[]", []],
  ["array['\\x01'::bytea]", ['AQ==']],
  ['array[true, false]', [true, false]],
  ["row(1, 'a')", '(1,a)'],
  ['int4range(1, 5)', '[1,5)'],
])('%s is %j', async (expression, expected) => {
  const context = callContext({ secrets: { main: database.url } });
  const outcome = await tool.call({ auth: 'main', command: `select ${expression} as value` }, context);
  expect(outcome).toMatchObject({ status: 'ok' });
  const { rows } = outcome.result as { rows: { value: unknown }[] };
  expect(rows).toEqual([{ value: expected }]);
});
