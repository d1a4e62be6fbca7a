import { afterAll, beforeAll, expect, test } from 'vitest';
import { type EngineBench, openEngine } from '../engines/native/native.fixture.ts';
import { printer } from '../engines/native/printer.fixture.ts';
import { playbook } from '../engines/test-bench.fixture.ts';
import { startServer, type TestServer } from '../tools/http/test-server.fixture.ts';
import { secretsTool } from '../tools/secrets/secrets-tool.ts';
import { OAuthTokens, type TokenRequest } from './oauth-tokens.ts';

const SECRETS: Record<string, unknown> = {
  client: 'c11ent-s3cret-value',
  pair: { user: 'ann', password: 'pa55word-value' },
  TOKEN: 'env-t0ken-value',
};

let server: TestServer;
let bench: EngineBench;
let given = 0;
let answer: (body: string) => [number, unknown] = () => [200, {}];
beforeAll(async () => {
  server = await startServer((request, response) => {
    given += 1;
    const [status, body] = answer(request.body);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  bench = await openEngine({
    tools: [printer, secretsTool()],
    secrets: {
      resolve: async (name) => {
        if (!Object.hasOwn(SECRETS, name)) throw new Error(`no secret ${name}`);
        return SECRETS[name];
      },
    },
  });
});
afterAll(async () => {
  await bench?.close();
  await server?.close();
});

const run = (text: string, keychain: string) =>
  bench.run(
    playbook(`- {step: start, tool: {kind: printer, text: ${JSON.stringify(text)}}}`, `keychain: ${keychain}\n`),
    {
      tools: { printer: {} },
    },
  );
/** The length of what the tool got: its value is redacted wherever it could be seen. */
const lengthOf = async (expression: string, keychain: string): Promise<unknown> => {
  const events = await run(`length {{ (${expression}) | length }}`, keychain);
  expect(JSON.stringify(events)).not.toMatch(/s3cret|pa55word|t0ken/);
  return events.at(-1)?.payload?.['result'] ?? events.at(-1)?.payload?.['error'];
};

test('NE-D1 every kind of the keychain is resolved on the worker, and a template of one entry reads another', async () => {
  const is = (text: string) => ({ value: `length ${text.length}` });
  expect(await lengthOf('keychain.a', '[{name: a, kind: credential, credential: client}]')).toEqual(
    is('c11ent-s3cret-value'),
  );
  expect(await lengthOf('keychain.a.password', '[{name: a, kind: credential, credential: pair}]')).toEqual(
    is('pa55word-value'),
  );
  expect(await lengthOf('keychain.b.token', '[{name: b, kind: bearer, token: "secret:client"}]')).toEqual(
    is('c11ent-s3cret-value'),
  );
  const two = `[{name: a, kind: credential, credential: pair}, {name: b, kind: bearer, token: "{{ keychain.a.password }}"}]`;
  expect(await lengthOf('keychain.b.token', two)).toEqual(is('pa55word-value'));
  expect(await lengthOf('keychain.c.key', '[{name: c, kind: secrets, provider: env, map: {key: client}}]')).toEqual(
    is('c11ent-s3cret-value'),
  );
  expect(await lengthOf('keychain.d.key', `[{name: d, kind: static, map: {key: "env:TOKEN"}}]`)).toEqual(
    is('env-t0ken-value'),
  );
});

test('NE-D1 an oauth2 entry fetches its token once, with the credentials of other entries, and neither is seen anywhere', async () => {
  const seen: string[] = [];
  answer = (body) => {
    seen.push(body);
    return [200, { access_token: 'acc3ss-t0ken-value', expires_in: 3600, token_type: 'Bearer' }];
  };
  const keychain = `
  - {name: app, kind: credential, credential: client}
  - name: api
    kind: oauth2
    endpoint: "${server.origin}/token"
    data: {grant_type: client_credentials, client_id: me, client_secret: "{{ keychain.app }}"}
    auto_renew: true
`;
  const before = given;
  for (let i = 0; i < 3; i++) {
    const events = await run(
      'Bearer {{ keychain.api.access_token }} {{ keychain.api.token | length }}',
      `\n${keychain}`,
    );
    expect(events.at(-1)?.payload?.['result']).toEqual({ value: 'Bearer [redacted] 18' });
    expect(JSON.stringify(events)).not.toMatch(/acc3ss|s3cret/);
  }
  expect(given - before).toBe(1);
  expect(new URLSearchParams(seen[0]).get('client_secret')).toBe('c11ent-s3cret-value');
});

test('a token that is refused, or cannot be had, fails the task with a code and without what was sent', async () => {
  const keychain = (path: string) =>
    `[{name: api, kind: oauth2, endpoint: "${path}", data: {grant_type: password, password: "env:TOKEN"}}]`;
  answer = (body) => [401, { error: `wrong: ${body}` }];
  expect(await lengthOf('keychain.api.token', keychain(`${server.origin}/a`))).toMatchObject({
    code: 'SECRET_INVALID',
    retryable: false,
  });
  answer = () => [503, {}];
  expect(await lengthOf('keychain.api.token', keychain(`${server.origin}/b`))).toMatchObject({
    code: 'SECRET_UNAVAILABLE',
    retryable: true,
  });
  answer = () => [200, { nothing: 1 }];
  expect(await lengthOf('keychain.api.token', keychain(`${server.origin}/c`))).toMatchObject({
    code: 'SECRET_INVALID',
  });
  expect(await lengthOf('keychain.api.token', keychain('http://169.254.169.254/latest'))).toMatchObject({
    code: 'URL_NOT_ALLOWED',
  });
  expect(await lengthOf('keychain.api.token', keychain('http://127.0.0.1:1/'))).toMatchObject({
    code: 'SECRET_UNAVAILABLE',
  });
});

test('a token is fetched anew before it ends, or at its end where that was not asked for, and by each tenant for itself', async () => {
  let now = 0;
  const tokens = new OAuthTokens({}, () => now);
  answer = () => [200, { access_token: `token-${given}`, expires_in: 100 }];
  const request: TokenRequest = {
    name: 'api',
    endpoint: `${server.origin}/renew`,
    method: 'POST',
    headers: {},
    data: { grant_type: 'client_credentials' },
    autoRenew: true,
  };
  const acme = { tenantId: 'acme', environmentId: 'prod' };
  const fetched = async (change: Partial<TokenRequest> = {}, scope = acme): Promise<boolean> => {
    const before = given;
    await Promise.all([1, 2, 3].map(() => tokens.token({ ...request, ...change }, scope)));
    expect(given - before).toBeLessThanOrEqual(1);
    return given > before;
  };
  expect([await fetched(), await fetched(), await fetched({}, { ...acme, tenantId: 'other' })]).toEqual([
    true,
    false,
    true,
  ]);
  expect([await fetched({ autoRenew: false }), await fetched({ data: { grant_type: 'other' } })]).toEqual([true, true]);
  now = 51_000;
  expect([await fetched(), await fetched({ autoRenew: false })]).toEqual([true, false]);
  now = 101_000;
  expect(await fetched({ autoRenew: false })).toBe(true);
});

test('ES-2a a reference to a secret that came with the workload is resolved only if the playbook itself asks for that secret', async () => {
  const text = (auth: string): string =>
    playbook(`
- {step: start, tool: {kind: secrets, auth: ${JSON.stringify(auth)}}, next: {arcs: [{step: show}]}}
- {step: show, tool: {kind: printer, text: "{{ workload.given }}"}}
`);
  const forged = (name: string) => ({
    tools: { printer: {} },
    workload: { given: { _secret: { name } }, name: 'client' },
  });
  const last = async (auth: string, name: string) => (await bench.run(text(auth), forged(name))).at(-1)?.payload;
  expect(await last('client', 'TOKEN')).toMatchObject({ error: { code: 'SECRET_NOT_FOUND' } });
  expect(await last('client', 'client')).toMatchObject({ result: { value: '[redacted]' } });
  expect(await last('{{ workload.name }}', 'TOKEN')).toMatchObject({ result: { value: '[redacted]' } });
});
