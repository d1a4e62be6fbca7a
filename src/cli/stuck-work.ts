import { AppError } from '../contracts/errors.ts';
import { isTerminal } from '../contracts/states.ts';
import type { RunRow } from '../store/sql/find-run.ts';
import type { WorkRow } from '../store/work.ts';
import type { Context } from './context.ts';
import type { Finding } from './health.ts';
import { nextCommand } from './next-command.ts';
import { RunTree } from './run-tree.ts';
import { catchUp } from './watch-run.ts';

const MOST_RUNS = 500;
/** A unit that was taken so often and always came back does not fail by chance. */
const OFTEN = 3;

/** Open runs that nobody can be working on, and units that fail again and again. */
export async function work(context: Context): Promise<Finding[]> {
  const store = await context.session.store();
  const open = (await store.listRuns({ statuses: ['PENDING', 'RUNNING'], limit: MOST_RUNS })).filter(
    // Other engines hand out work by themselves, and put back what is lost.
    ({ engine }) => engine === 'native',
  );
  const found: Finding[] = [];
  for (const run of open) {
    const rows = await store.work.list(run.runId);
    // It may have ended since it was listed.
    const now = await store.findRun(run.runId);
    if (!now || (now.status !== undefined && isTerminal(now.status))) continue;
    found.push(...(await judge(context, run, rows)));
  }
  return found.length > 0 ? found : [{ check: 'work', ok: true, says: `${open.length} open runs, none is stuck` }];
}

async function judge(context: Context, run: RunRow, rows: readonly WorkRow[]): Promise<Finding[]> {
  const { deadOwners } = await import('../engines/units/worker-name.ts');
  const short = run.runId.slice(0, 8);
  const resume = nextCommand(context.args, `resume ${short}`);
  const found: Finding[] = [];
  const tree = new RunTree(run.runId);
  if (rows.length === 0) await catchUp(await context.session.store(), tree);
  // Nobody asked an engine for it: somebody writes its log by hand, and no work is missing.
  if (rows.length === 0 && tree.status === undefined)
    return [{ check: 'work', ok: true, says: `run ${short} was not started by an engine, and none works on it` }];
  if (tree.writes.open.size > 0)
    found.push({
      check: 'work',
      ok: true,
      says: `run ${short} waits for ${nextCommand(context.args, `settle ${short}`)}`,
    });
  else if (rows.length === 0 && (await isWithoutChildren(context, run.runId)))
    found.push({
      check: 'work',
      ok: false,
      says: `run ${short} is ${run.status ?? 'PENDING'} and has no work`,
      cure: resume,
      fix: () => repair(context, run.runId),
    });
  const owners = [...new Set(rows.flatMap(({ leaseOwner }) => leaseOwner ?? []))];
  const dead = deadOwners(owners);
  const late = rows.filter(
    ({ leaseOwner, leaseExpiresAt }) =>
      leaseOwner !== undefined && (dead.includes(leaseOwner) || Date.parse(leaseExpiresAt ?? '') < Date.now()),
  );
  if (late.length > 0)
    found.push({
      check: 'work',
      ok: false,
      says: `run ${short}: ${units(late.length)} held by workers that are gone (${late[0]!.unit} by ${late[0]!.leaseOwner})`,
      cure: resume,
      fix: () => free(context, run, late),
    });
  const failing = rows.find(({ lastError, deliveries }) => lastError !== undefined && deliveries >= OFTEN);
  if (failing)
    found.push({
      check: 'work',
      ok: false,
      says: `run ${short}: ${failing.unit} was taken ${failing.deliveries} times: ${failing.lastError}`,
      cure: `${nextCommand(context.args, `events ${short}`)}, then ${nextCommand(context.args, `cancel ${short}`)} if it cannot go on`,
    });
  return found;
}

/** A run that waits for another one may have nothing of its own to do for a moment. */
async function isWithoutChildren({ session }: Context, runId: string): Promise<boolean> {
  return (await (await session.store()).work.openChildren(runId)).length === 0;
}

async function repair({ session }: Context, runId: string): Promise<string> {
  const runtime = await session.runtime({ work: false });
  const added = await runtime.engine.repair(runId);
  if (added > 0) return `made ${units(added)} again from the log`;
  const store = await session.store();
  const run = await store.findRun(runId);
  if (run?.status !== undefined && isTerminal(run.status)) return `it is ${run.status} now`;
  if ((await store.work.list(runId)).length > 0) return 'somebody else has put its work back';
  throw new AppError('INTERNAL', 'its log asks for no work, and it has not ended');
}

async function free({ args, session }: Context, run: RunRow, rows: readonly WorkRow[]): Promise<string> {
  const store = await session.store();
  await store.work.release(rows.map(({ unit, fence }) => ({ runKey: run.runKey, unit, fence })));
  return `freed ${units(rows.length)}; a worker takes it, or ${nextCommand(args, `resume ${run.runId.slice(0, 8)}`)}`;
}

const units = (count: number): string => `${count} unit${count === 1 ? '' : 's'} of work`;
