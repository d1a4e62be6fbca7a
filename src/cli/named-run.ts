import { AppError } from '../contracts/errors.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { RunRow } from '../store/sql/find-run.ts';
import type { Context } from './context.ts';
import { databaseName } from './database-name.ts';
import { nextCommand } from './next-command.ts';

/** The run that a person names: its id, the beginning of it, or `latest`. */
export async function namedRun(context: Context, name: string): Promise<RunRow> {
  const store = await context.session.store();
  const run = await store.findRun(name);
  if (run) return run;
  const where = `the database ${databaseName(await context.session.settings())}`;
  return name === 'latest' ? latest(store, where) : byPrefix(context, store, name, where);
}

async function latest(store: PostgresStore, where: string): Promise<RunRow> {
  const [run] = await store.listRuns({ topLevel: true, limit: 1 });
  if (!run)
    throw new AppError('RUN_NOT_FOUND', `There are no runs yet in ${where}.`, {
      next: 'Run a playbook first: runledger run FILE',
    });
  return run;
}

async function byPrefix({ args }: Context, store: PostgresStore, prefix: string, where: string): Promise<RunRow> {
  const found = prefix === '' ? [] : await store.listRuns({ idPrefix: prefix, limit: 4 });
  if (found.length === 1) return found[0]!;
  if (found.length === 0)
    throw new AppError('RUN_NOT_FOUND', `No run begins with '${prefix}' in ${where}.`, {
      runId: prefix,
      next: `See those that there are: ${nextCommand(args, 'runs')}`,
    });
  const some = found
    .slice(0, 3)
    .map((run) => run.runId)
    .join(', ');
  throw new AppError(
    'RUN_AMBIGUOUS',
    `Several runs begin with '${prefix}': ${some}${found.length > 3 ? ', ...' : ''}`,
    { runId: prefix },
  );
}
