import type { Command } from '../context.ts';

export const migrate: Command = async ({ args, terminal, session }) => {
  const { migrate: apply, readMigrations } = await import('../../store/sql/migrate.ts');
  if (args.has('print')) {
    const migrations = readMigrations();
    if (terminal.json) terminal.printJson({ migrations });
    else for (const { name, sql } of migrations) terminal.print(`-- ${name}\n${sql}`);
    return 0;
  }
  const [{ openDatabase }, { Postgres }] = await Promise.all([
    import('../../runtime/open-ledger.ts'),
    import('../../store/sql/postgres.ts'),
  ]);
  const warn = (line: string): void => terminal.note(line);
  const database = await openDatabase(await session.settings(), { warn, log: terminal.verbose ? warn : undefined });
  const postgres = new Postgres(database.options);
  try {
    const applied = await apply(postgres);
    if (terminal.json) terminal.printJson({ applied });
    else terminal.print(applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`);
  } finally {
    await postgres.close();
    await database.close();
  }
  return 0;
};
