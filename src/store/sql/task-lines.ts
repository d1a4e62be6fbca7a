import { microsToText } from '../../lib/time.ts';
import type { Postgres } from './postgres.ts';

/** A line that a task printed, as its writer stores it. */
export interface NewTaskLine {
  readonly runId: string;
  readonly lineNo: number;
  readonly printedAt: string;
  readonly stepId: string;
  readonly entity: string;
  readonly attempt: number;
  readonly stream: string;
  readonly line: string;
}

export interface TaskLine extends NewTaskLine {
  readonly writer: string;
}

/** Up to which line the reader has seen each writer. */
export type TaskLineCursor = Readonly<Record<string, number>>;

/** Stores lines of one writer. Stored twice they stay one; those of a run that does not exist are dropped. */
export async function appendTaskLines(
  postgres: Postgres,
  writer: string,
  lines: readonly NewTaskLine[],
): Promise<void> {
  const text = `
    insert into runledger.task_lines (run_key, writer, line_no, printed_at, step_id, entity, attempt, stream, line)
    select r.run_key, $1, x.line_no, x.printed_at, x.step_id, x.entity, x.attempt, x.stream, x.line
    from unnest($2::text[], $3::bigint[], $4::timestamptz[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::text[])
      as x(run_id, line_no, printed_at, step_id, entity, attempt, stream, line)
    join runledger.runs r on r.run_id = x.run_id
    on conflict do nothing`;
  await postgres.query({ name: 'append_task_lines', text }, [
    writer,
    lines.map((line) => line.runId),
    lines.map((line) => line.lineNo),
    lines.map((line) => line.printedAt),
    lines.map((line) => line.stepId),
    lines.map((line) => line.entity),
    lines.map((line) => line.attempt),
    lines.map((line) => line.stream),
    lines.map((line) => line.line),
  ]);
}

interface LineRow {
  readonly writer: string;
  readonly line_no: string;
  readonly us: string;
  readonly step_id: string;
  readonly entity: string;
  readonly attempt: number;
  readonly stream: string;
  readonly line: string;
}

/** Lines of a run that the cursor has not seen, by time. Of one writer they come in its order. */
export async function readTaskLines(
  postgres: Postgres,
  run: { readonly runKey: number; readonly runId: string },
  after: TaskLineCursor,
  limit: number,
): Promise<TaskLine[]> {
  const text = `
    select writer, line_no, (extract(epoch from printed_at) * 1000000)::bigint::text as us, step_id, entity, attempt, stream, line
    from runledger.task_lines
    where run_key = $1 and line_no > coalesce(($2::jsonb ->> writer)::bigint, 0)
    order by printed_at, writer, line_no limit $3`;
  const rows = await postgres.query<LineRow>({ name: 'read_task_lines', text }, [
    run.runKey,
    JSON.stringify(after),
    limit,
  ]);
  return rows.map((row) => ({
    runId: run.runId,
    writer: row.writer,
    lineNo: Number(row.line_no),
    printedAt: microsToText(Number(row.us)),
    stepId: row.step_id,
    entity: row.entity,
    attempt: row.attempt,
    stream: row.stream,
    line: row.line,
  }));
}
