import pg from 'pg';
import { callContext } from '../../testing/call-context.ts';
import { PostgresTool } from './postgres-tool.ts';

/**
 * A process that makes one write and is killed around its COMMIT, as a power cut would: `before` it is sent, when it was `sent`
 * and not answered, or `after` the server confirmed it and before anybody was told.
 */
const [url, key, moment] = process.argv.slice(2) as [string, string, 'before' | 'sent' | 'after'];

const query = pg.Client.prototype.query as (...args: unknown[]) => Promise<unknown>;
pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
  if (args[0] !== 'COMMIT') return query.apply(this, args);
  const die = (): void => void process.kill(process.pid, 'SIGKILL');
  if (moment === 'before') die();
  const answer = query.apply(this, args);
  if (moment === 'sent') setImmediate(die);
  return answer.then((value) => {
    if (moment === 'after') die();
    return value;
  });
} as typeof pg.Client.prototype.query;

const input = { auth: 'main', command: 'insert into orders (name) values ($1) returning id, name', params: ['first'] };
await new PostgresTool().call(input, callContext({ secrets: { main: url }, idempotencyKey: key }));
