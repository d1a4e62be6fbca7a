import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const ENTRY = fileURLToPath(new URL('./contender-process.ts', import.meta.url));
/** Where packages are found that only the benchmarks have. */
const FOLDER = fileURLToPath(new URL('../out/process/', import.meta.url));

/** Makes one JavaScript file of a contender's process: to compile it anew takes a second, in each of some forty of them. */
export async function buildProcess(): Promise<string> {
  await build({
    entryPoints: { 'contender-process': ENTRY },
    outdir: FOLDER,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    packages: 'external',
    logLevel: 'error',
    plugins: [
      {
        name: 'keep-places',
        setup(given) {
          // Files that lie beside the code (migrations) are found from its place, which is not that of the bundle.
          given.onLoad({ filter: /\.ts$/ }, ({ path }) => ({
            loader: 'ts',
            contents: readFileSync(path, 'utf8')
              .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
              .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)),
          }));
        },
      },
    ],
  });
  return join(FOLDER, 'contender-process.mjs');
}
