import { AppError } from '../../contracts/errors.ts';

export type DuckDb = typeof import('@duckdb/node-api');

/** DuckDB brings 70 MB of native code, so it is installed only where it is used. */
export async function loadDuckDb(): Promise<DuckDb> {
  try {
    return await import('@duckdb/node-api');
  } catch (error) {
    const message = 'duckdb needs a package that is not installed; run: npm install @duckdb/node-api';
    throw new AppError('DEPENDENCY_MISSING', message, { package: '@duckdb/node-api' }, { cause: error });
  }
}
