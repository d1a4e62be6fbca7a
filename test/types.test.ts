import { expect, test } from 'vitest';
import { compilerErrors } from './typed-snippets.fixture.ts';

const HEAD = `import { createRuntime, defineConfig, defineTool, Type, type Run, type Runtime } from 'runledger';
declare const runtime: Runtime;
declare const run: Run;
`;
const tool = (more: string): string =>
  `export default defineTool({ kind: 'greet', input: Type.Object({ who: Type.String() }), effect: 'compute', ${more} });`;

const RIGHT = {
  tool: tool('run: ({ who }, { log }) => { log("log", who.toUpperCase()); return { text: who }; }'),
  config: `export default defineConfig({ tenant: 'acme', concurrency: 4, addresses: { allow: ['127.0.0.1'] } });`,
  runtime: `const r = await createRuntime({ databaseUrl: 'postgres://localhost/runs', work: false, onLog: ({ line }) => line.trim() });
for await (const event of (await r.start('a.yaml', { input: { n: 1 } })).events({ afterSeq: 3 })) event.eventType.at(0);
export const end = (await run.ended()).error?.stepId;`,
};

/** What somebody may write by mistake, and what they must read. */
const WRONG: Readonly<Record<string, readonly [code: string, message: RegExp]>> = {
  'a misspelt setting': [
    `defineConfig({ databaseURL: 'x' });`,
    /'databaseURL' does not exist.*Did you mean.*'databaseUrl'/,
  ],
  'a setting of the wrong type': [`defineConfig({ concurrency: '4' });`, /'string' is not assignable to type 'number'/],
  'an option of the runtime that does not exist': [
    `createRuntime({ worker: false });`,
    /'worker' does not exist in type 'RuntimeOptions'/,
  ],
  'a playbook that is both file and text': [`runtime.start({ file: 'a.yaml', text: 'x' });`, /not assignable/],
  'a start option that does not exist': [
    `runtime.start('a.yaml', { workload: {} });`,
    /'workload' does not exist in type 'StartRunOptions'/,
  ],
  'a signal that does not exist': [
    `run.signal('STOP');`,
    /'"STOP"' is not assignable to parameter of type 'SignalName'/,
  ],
  'a status that does not exist': [`runtime.list({ statuses: ['DONE'] });`, /'"DONE"' is not assignable to type/],
  'an effect that does not exist': [
    tool('run: () => 1').replace(`'compute'`, `'writes'`),
    /'"writes"' is not assignable to type/,
  ],
  'a tool without run': [tool(''), /'run' is missing in type/],
  'a field that the tool has not': [tool('run: ({ whom }) => whom'), /'whom' does not exist on type/],
  'a field of another type': [tool('run: ({ who }) => who.toFixed()'), /'toFixed' does not exist on type 'string'/],
};

test('what is right compiles, and what is wrong is an error that says so', { timeout: 300_000 }, () => {
  const files: Record<string, string> = {};
  for (const [name, code] of Object.entries(RIGHT)) files[`right-${name}.ts`] = `${HEAD}${code}\n`;
  Object.values(WRONG).forEach(([code], i) => {
    files[`wrong-${i}.ts`] = `${HEAD}${code}\nexport {};\n`;
  });
  const errors = compilerErrors(files);
  for (const name of Object.keys(RIGHT)) expect(errors.get(`right-${name}.ts`) ?? []).toEqual([]);
  Object.entries(WRONG).forEach(([title, [, message]], i) => {
    const said = errors.get(`wrong-${i}.ts`) ?? [];
    expect(said.join('\n'), title).toMatch(message);
    expect(said, title).toHaveLength(1);
    expect(said[0], title).toMatch(/^line 4: /);
  });
});
