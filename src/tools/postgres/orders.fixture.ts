import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import { AppError } from '../../contracts/errors.ts';
import { callContext } from '../../testing/call-context.ts';
import type { CallContext, ToolError, ToolOutcome } from '../tool.ts';
import { PostgresTool, type PostgresToolOptions } from './postgres-tool.ts';

export const INSERT = 'insert into orders (name) values ($1) returning id, name';

export let database: TestDatabase;
/** A connection beside the tool's, to look and to disturb. */
export let admin: pg.Client;
const tools: PostgresTool[] = [];

/** An empty table `orders` before every test of the file. */
export function useOrders(): void {
  beforeAll(async () => {
    database = await createTestDatabase({ empty: true });
    admin = new pg.Client({ connectionString: database.url });
    await admin.connect();
    await admin.query('create table orders (id serial primary key, name text unique, data jsonb)');
  });
  beforeEach(async () => {
    await admin.query('truncate orders restart identity');
    await admin.query('drop table if exists runledger_effects');
  });
  afterEach(async () => {
    for (const tool of tools.splice(0)) await tool.close();
  });
  afterAll(async () => {
    await admin.end();
    await database.drop();
  });
}

/** Closed after the test. */
export function postgresTool(options: PostgresToolOptions = {}): PostgresTool {
  const tool = new PostgresTool(options);
  tools.push(tool);
  return tool;
}

type Options = Partial<CallContext> & { readonly tool?: PostgresTool; readonly url?: string };

export function run(command: string | string[], params?: unknown, options: Options = {}): Promise<ToolOutcome> {
  const { tool = postgresTool(), url = database.url, ...rest } = options;
  const input = { auth: 'main', command, ...(params === undefined ? {} : { params }) };
  return tool.call(input, callContext({ secrets: { main: url }, ...rest }));
}

export function errorOf(outcome: ToolOutcome): ToolError {
  if (outcome.status !== 'error')
    throw new AppError('INTERNAL', `expected an error, got ${JSON.stringify(outcome.result)}`);
  return outcome.error;
}

export async function countOrders(): Promise<number> {
  return (await admin.query('select count(*)::int as n from orders')).rows[0].n;
}

const SLEEPING = "select 1 from pg_stat_activity where query like '%pg_sleep(20)%' and wait_event = 'PgSleep'";

export async function isSleeping(): Promise<boolean> {
  return (await admin.query(SLEEPING)).rowCount !== 0;
}

/** Waits until a call is in the middle of `pg_sleep(20)`. */
export async function untilSleeping(): Promise<void> {
  while (!(await isSleeping())) await new Promise((resolve) => setTimeout(resolve, 10));
}
