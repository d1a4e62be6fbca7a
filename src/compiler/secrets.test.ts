import { describe, expect, test } from 'vitest';
import { compileText, problemsOf, withTool } from './compile.fixture.ts';
import { formatProblems } from './problems.ts';

const tool = (fields: string): string => withTool(`{kind: http, url: "https://x.test", ${fields}}`);

const SECRETS: readonly (readonly [what: string, text: string])[] = [
  ['a password in the workload', withTool('{kind: noop}', 'workload: {password: hunter2}\n')],
  ['a number as a password', withTool('{kind: noop}', 'workload: {db: {password: 12345}}\n')],
  ['an authorization header', tool('headers: {Authorization: "Bearer abcDEF123"}')],
  ['a key in a header', tool('headers: {x-api-key: 8a7sd8f7a9}')],
  ['a token in a parameter', tool('params: {access_token: 8a7sd8f7a9}')],
  ['credentials in auth', tool('auth: {type: basic, username: u, password: p}')],
  ['a URL with a password', withTool('{kind: postgres, auth: "postgres://app:pw1@db/app", command: SELECT 1}')],
  ['a URL with a password in code', withTool('{kind: python, code: "connect(\'redis://:pw1@host/0\')"}')],
  ['a private key', withTool('{kind: noop, result: "-----BEGIN RSA PRIVATE KEY-----"}')],
  ['a key of a cloud', withTool('{kind: shell, cmds: ["export K=AKIAABCDEFGHIJKLMNOP"]}')],
  ['a static keychain value', withTool('{kind: noop}', 'keychain: [{name: k, kind: static, map: {user: app}}]\n')],
  ['a bearer token', withTool('{kind: noop}', 'keychain: [{name: k, kind: bearer, token: my_token}]\n')],
  [
    'the secret of a client',
    withTool('{kind: noop}', 'keychain: [{name: k, kind: oauth2, endpoint: e, data: {client_secret: my_secret}}]\n'),
  ],
  [
    'what an arc passes on',
    withTool('{kind: noop}, next: {arcs: [{step: start, when: "{{ ctx.a }}", args: {apiKey: K3yK3y}}]}'),
  ],
];

const REFERENCES: readonly (readonly [what: string, text: string])[] = [
  ['a credential by name', tool('auth: pg_k8s')],
  ['a credential by template', tool('auth: "{{ workload.pg }}"').replace('workflow', 'workload: {pg: x}\nworkflow')],
  ['a keychain template', tool('headers: {Authorization: "Bearer {{ keychain.k.token }}"}')],
  ['an empty default', withTool('{kind: noop}', 'workload: {password: "", token: null, api_key: "{{ x }}"}\n')],
  [
    'words that only sound like it',
    withTool('{kind: noop}', 'workload: {max_tokens: 100, token_url: "https://x.test", secret_name: gcs_hmac}\n'),
  ],
  ['a name where a value could stand', tool('params: {token: slack_bot}')],
  [
    'a path of a secret manager',
    withTool('{kind: noop}', 'workload: {client_secret: projects/1/secrets/a/versions/1}\n'),
  ],
  ['references of the secrets tool', withTool('{kind: secrets, secret: Ab3dEf, token: Zz9}')],
  [
    'references of the keychain',
    withTool('{kind: noop}', 'keychain: [{name: k, kind: secrets, provider: gcp, auth: g, map: {password: Db1}}]\n'),
  ],
  ['a URL without a password', tool('params: {u: "https://user@host/a:b@c"}')],
  [
    'a template in a URL',
    withTool('{kind: postgres, auth: "postgres://app:{{ keychain.k.pw }}@db/app", command: SELECT 1}'),
  ],
];

describe('ES-2a a secret value in a playbook is refused', () => {
  test.each(SECRETS)('%s', (_what, text) => {
    expect(problemsOf(text).map((found) => found.split(' ')[0])).toEqual(['SECRET_IN_PLAN']);
  });
});

describe('ES-2a a reference to a secret is taken', () => {
  test.each(REFERENCES)('%s', (_what, text) => {
    expect(problemsOf(text)).toEqual([]);
  });
});

test('ES-2a no message and no excerpt shows the secret, also not for another problem of the same line', () => {
  const text = withTool('{kind: http, metod: GET, url: u, headers: {Authorization: "Bearer s3cr3tV4lue"}}');
  const result = compileText(text);
  expect(result.ok ? [] : result.problems.map(({ code }) => code)).toEqual(['INVALID_STEP_SCHEMA', 'SECRET_IN_PLAN']);
  const shown = result.ok ? '' : formatProblems(result.problems) + JSON.stringify(result.problems);
  expect(shown).not.toContain('s3cr3t');
  expect(shown).toContain('Authorization: ***}');
});
