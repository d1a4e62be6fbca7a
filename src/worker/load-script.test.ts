import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type EngineBench, openEngine } from '../engines/native/native.fixture.ts';
import { playbook } from '../engines/test-bench.fixture.ts';
import { sha256Hex } from '../lib/hash.ts';
import { startServer, type TestServer } from '../tools/http/test-server.fixture.ts';
import { JavascriptTool } from '../tools/javascript/javascript-tool.ts';
import { ShellTool } from '../tools/shell/shell-tool.ts';
import { withScript } from './load-script.ts';

const CODE = 'result = input.n * 2';
let folder: string;
let server: TestServer;
let bench: EngineBench;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-script-'));
  mkdirSync(join(folder, 'inside'));
  writeFileSync(join(folder, 'inside', 'twice.js'), CODE);
  writeFileSync(join(folder, 'outside.js'), CODE);
  symlinkSync(join(folder, 'outside.js'), join(folder, 'inside', 'link.js'));
  server = await startServer((request, response) => {
    if (request.url.startsWith('/twice.js')) response.end(CODE);
    else if (request.url === '/away') response.writeHead(302, { location: 'http://169.254.169.254/' }).end();
    else response.writeHead(request.url === '/broken' ? 503 : 404).end();
  });
  bench = await openEngine({
    tools: [new JavascriptTool(), new ShellTool({})],
    scriptFolders: [join(folder, 'inside')],
  });
});
afterAll(async () => {
  await bench?.close();
  await server?.close();
  rmSync(folder, { recursive: true, force: true });
});

const run = (script: object) =>
  bench.run(playbook(`- {step: start, tool: {kind: javascript, input: {n: 21}, script: ${JSON.stringify(script)}}}`));
const load = (script: unknown, kind = 'javascript') =>
  withScript(kind, { script }, { folders: [join(folder, 'inside')] }, new AbortController().signal);
const codeOf = (loading: Promise<unknown>): Promise<string> =>
  loading.then(
    () => 'loaded',
    (error: { code?: string }) => error.code ?? String(error),
  );

test('NE-D1 a script is loaded on the worker from the plan, a file or a server, and its sha256 is in the log', async () => {
  const scripts = [
    { source: { type: 'inline', content: CODE } },
    { uri: 'twice.js', source: { type: 'file' } },
    { uri: 'twice.js' },
    { uri: pathToFileURL(join(folder, 'inside', 'twice.js')).href },
    { uri: `${server.origin}/twice.js?signature=abc`, source: { type: 'http' }, sha256: sha256Hex(CODE) },
  ];
  for (const script of scripts) {
    const events = await run(script);
    expect([script, events.at(-1)?.payload?.['result']]).toEqual([script, { value: 42 }]);
    const done = events.find(({ eventType }) => eventType === 'TaskDone');
    expect(done?.payload?.['outcome']).toMatchObject({
      meta: { script: { sha256: sha256Hex(CODE), sizeBytes: CODE.length } },
    });
    expect(JSON.stringify(done)).not.toContain('signature');
  }
});

test('a script of a shell is one command', async () => {
  const events = await bench.run(
    playbook(
      '- {step: start, tool: {kind: shell, script: {source: {type: inline, content: "A=1\\nB=2\\necho $((A + B))"}}}}',
    ),
  );
  expect(events.at(-1)?.payload?.['result']).toMatchObject({ value: { stdout: '3\n' } });
});

test('a file outside of the folders is not read: not by its path, not by dots, not through a link', async () => {
  const outside = join(folder, 'outside.js');
  for (const uri of [outside, '../outside.js', 'link.js', pathToFileURL(outside).href, '/etc/passwd', 'none.js', ''])
    expect([uri, await codeOf(load({ uri, source: { type: 'file' } }))]).toEqual([
      uri,
      uri === '' ? 'INVALID_STEP_SCHEMA' : 'FILE_NOT_READABLE',
    ]);
  const nowhere = withScript('python', { script: { uri: 'twice.js' } }, { folders: [] }, new AbortController().signal);
  expect(await codeOf(nowhere)).toBe('TOOL_UNAVAILABLE');
});

test('what cannot be loaded fails the task with a code of its own', async () => {
  const http = (path: string) => load({ uri: `${server.origin}${path}` });
  expect(await codeOf(http('/none'))).toBe('FILE_NOT_READABLE');
  expect(await codeOf(http('/broken'))).toBe('SCRIPT_UNREACHABLE');
  expect(await codeOf(http('/away'))).toBe('URL_NOT_ALLOWED');
  expect(await codeOf(load({ uri: 'http://127.0.0.1:1/x.js' }))).toBe('SCRIPT_UNREACHABLE');
  expect(await codeOf(load({ uri: 'http://169.254.169.254/x.js' }))).toBe('URL_NOT_ALLOWED');
  expect(await codeOf(load({ uri: 'twice.js', sha256: '0'.repeat(64) }))).toBe('ARTIFACT_CORRUPT');
  expect(await codeOf(load({ uri: 's3://bucket/x.js' }))).toBe('TOOL_UNAVAILABLE');
  expect(await codeOf(load({ uri: 'gs://bucket/x.js', source: { type: 'gcs' } }))).toBe('TOOL_UNAVAILABLE');
  expect(await codeOf(load({ source: { type: 'inline' } }))).toBe('INVALID_STEP_SCHEMA');
  expect(await codeOf(load({ source: { type: 'floppy' } }))).toBe('INVALID_STEP_SCHEMA');
  expect(await codeOf(load('text'))).toBe('INVALID_STEP_SCHEMA');
  expect(await codeOf(load({ source: { type: 'inline', content: 'x'.repeat(2_000_000) } }))).toBe('RESPONSE_TOO_LARGE');
  const both = withScript('python', { script: {}, code: 'x' }, { folders: [] }, new AbortController().signal);
  expect(await codeOf(both)).toBe('INVALID_STEP_SCHEMA');
});
