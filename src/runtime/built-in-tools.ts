import type { Tool } from '../tools/tool.ts';
import type { Settings } from './config.ts';

/** The tools that come with Runledger, and the user's own, which may replace them. */
export async function builtInTools(settings: Settings): Promise<Tool[]> {
  const own = new Set(settings.tools.map((tool) => tool.kind));
  const [noop, http, postgres, duckdb, transfer, python, javascript, shell, artifact, secrets] = await Promise.all([
    import('../tools/noop/noop-tool.ts'),
    import('../tools/http/http-tool.ts'),
    import('../tools/postgres/postgres-tool.ts'),
    import('../tools/duckdb/duckdb-tool.ts'),
    import('../tools/transfer/transfer-tool.ts'),
    import('../tools/python/python-tool.ts'),
    import('../tools/javascript/javascript-tool.ts'),
    import('../tools/shell/shell-tool.ts'),
    import('../tools/artifact/artifact-tool.ts'),
    import('../tools/secrets/secrets-tool.ts'),
  ]);
  const { addresses, env } = settings;
  const tools: Tool[] = [
    noop.noopTool(),
    new http.HttpTool(addresses ? { addresses } : {}),
    new postgres.PostgresTool(),
    new duckdb.DuckDbTool(),
    new transfer.TransferTool(),
    new python.PythonTool({ hostEnvironment: env }),
    new javascript.JavascriptTool(),
    new shell.ShellTool({ hostEnvironment: env }),
    artifact.artifactTool(),
    secrets.secretsTool(),
  ];
  return [...tools.filter((tool) => !own.has(tool.kind)), ...settings.tools];
}
