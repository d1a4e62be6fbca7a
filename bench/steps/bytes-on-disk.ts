import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import type { Target } from './contender.ts';

export interface Bytes {
  readonly target: Target;
  readonly folder: string;
  /** The contender keeps its state in its folder, not in Postgres. */
  readonly isInFolder: boolean;
}

/** What a contender's state takes: its database, without Postgres' log ahead of writing, or its folder. */
export async function bytesOf({ target, folder, isInFolder }: Bytes): Promise<number> {
  if (isInFolder) return folderBytes(folder);
  const client = new pg.Client({ ...target });
  await client.connect();
  try {
    const { rows } = await client.query<{ bytes: string }>('select pg_database_size(current_database()) as bytes');
    return Number(rows[0]!.bytes);
  } finally {
    await client.end();
  }
}

function folderBytes(folder: string): number {
  let sum = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    try {
      sum += entry.isDirectory() ? folderBytes(path) : statSync(path).blocks * 512;
    } catch {
      // Gone since it was listed: its owner compacts while we look.
    }
  }
  return sum;
}
