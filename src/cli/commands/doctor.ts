import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { AppError, ERRORS } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { Command, Context } from '../context.ts';
import { clean } from '../terminal.ts';

interface Finding {
  readonly check: string;
  readonly ok: boolean;
  readonly says: string;
  readonly cure?: string;
}

export const doctor: Command = async (context) => {
  const { terminal } = context;
  const findings: Finding[] = [];
  for (const check of [node, configuration, database, work, python]) findings.push(...(await guarded(check, context)));
  const sick = findings.filter(({ ok }) => !ok).length;
  if (terminal.json) terminal.printJson({ ok: sick === 0, findings });
  else {
    for (const { check, ok, says, cure } of findings) {
      const mark = ok ? terminal.paint('green', terminal.symbols.done) : terminal.paint('red', terminal.symbols.failed);
      terminal.print(`${mark} ${check}: ${clean(says, 2000)}`);
      if (cure !== undefined) terminal.print(`  next: ${cure}`);
    }
  }
  return sick === 0 ? 0 : 1;
};

type Check = (context: Context) => Promise<Finding[]>;

async function guarded(check: Check, context: Context): Promise<Finding[]> {
  try {
    return await check(context);
  } catch (error) {
    const cure = error instanceof AppError ? ERRORS[error.code].cure : ERRORS.INTERNAL.cure;
    const code = error instanceof AppError ? `${error.code}: ` : '';
    return [{ check: check.name, ok: false, says: `${code}${(error as Error).message}`, cure }];
  }
}

async function node(): Promise<Finding[]> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const ok = major > 20 || (major === 20 && minor >= 19);
  return [{ check: 'node', ok, says: process.version, ...(ok ? {} : { cure: 'Install Node 20.19 or later.' }) }];
}

async function configuration({ session }: Context): Promise<Finding[]> {
  const { configFile, tools } = await session.settings();
  const own = tools.length === 0 ? '' : `, tools: ${tools.map(({ kind }) => kind).join(', ')}`;
  return [{ check: 'configuration', ok: true, says: `${configFile ?? 'no file, defaults'}${own}` }];
}

async function database({ session }: Context): Promise<Finding[]> {
  const { databaseUrl, folder } = await session.settings();
  const store = await session.store();
  const [latest] = await store.listRuns({ limit: 1 });
  const where = databaseUrl === undefined ? `embedded in ${folder}` : `at ${hostOf(databaseUrl)}`;
  const says = `${where}, schema up to date, ${latest ? `latest run ${latest.runId.slice(0, 8)}` : 'no runs yet'}`;
  return [{ check: 'database', ok: true, says }];
}

/** Runs that are open although nobody holds or waits for a piece of them. */
async function work({ session }: Context): Promise<Finding[]> {
  const store = await session.store();
  const open = await store.listRuns({ statuses: ['RUNNING'], limit: 200 });
  const lost: Finding[] = [];
  for (const run of open) {
    const rows = await store.work.list(run.runId);
    const now = await store.findRun(run.runId);
    if (!now?.status || isTerminal(now.status)) continue;
    const short = run.runId.slice(0, 8);
    const cure = `runledger resume ${short}`;
    if (rows.length === 0)
      lost.push({ check: 'work', ok: false, says: `run ${short} is RUNNING and has no work`, cure });
    const late = rows.filter(
      ({ leaseExpiresAt }) => leaseExpiresAt !== undefined && Date.parse(leaseExpiresAt) < Date.now(),
    );
    if (late.length > 0)
      lost.push({ check: 'work', ok: false, says: `run ${short}: ${late.length} leases ran out`, cure });
    const failing = rows.find(({ lastError, deliveries }) => lastError !== undefined && deliveries > 1);
    if (failing)
      lost.push({
        check: 'work',
        ok: false,
        says: `run ${short}: ${failing.unit} was taken ${failing.deliveries} times: ${failing.lastError}`,
        cure: `runledger events ${short}`,
      });
  }
  return lost.length > 0 ? lost : [{ check: 'work', ok: true, says: `${open.length} open runs, none is stuck` }];
}

async function python(): Promise<Finding[]> {
  try {
    const { stdout } = await promisify(execFile)('python3', ['--version'], { timeout: 10_000 });
    return [{ check: 'python', ok: true, says: stdout.trim() }];
  } catch {
    return [{ check: 'python', ok: true, says: 'python3 was not found; only playbooks with `kind: python` need it' }];
  }
}

function hostOf(url: string): string {
  try {
    const { hostname, port, pathname } = new URL(url);
    return `${hostname}${port === '' ? '' : `:${port}`}${pathname}`;
  } catch {
    return 'DATABASE_URL';
  }
}
