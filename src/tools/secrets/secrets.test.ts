import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { resolveSecretReferences, SecretResolver } from '../../lib/secrets.ts';
import { callContext } from '../../testing/call-context.ts';
import { toolSuite } from '../../testing/tool.suite.ts';
import { EnvSecretsProvider } from './env-provider.ts';
import { FileSecretsProvider } from './file-provider.ts';
import { secretsTool } from './secrets-tool.ts';

const acme = { tenantId: 'acme', environmentId: 'prod' };
const other = { tenantId: 'other', environmentId: 'prod' };
const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return 'resolved';
  } catch (error) {
    return error instanceof AppError ? error.code : String(error);
  }
};

describe('env', () => {
  const env = {
    RUNLEDGER_SECRET_PG_MAIN: '{"host": "h", "password": "p"}',
    RUNLEDGER_SECRET_TOKEN: 'tok',
    TOKEN: 'no',
    RUNLEDGER_SECRET_BAD: '{"a',
  };

  test('a name is a variable with the prefix, and JSON has fields', async () => {
    const found = await new EnvSecretsProvider({ env }).resolve(['pg-main', 'token', 'missing'], acme);
    expect([...found]).toEqual([
      ['pg-main', { host: 'h', password: 'p' }],
      ['token', 'tok'],
    ]);
  });

  test('ES-2b variables that belong to one tenant and environment are not given to another', async () => {
    const provider = new EnvSecretsProvider({ env, scope: acme });
    expect((await provider.resolve(['token'], acme)).get('token')).toBe('tok');
    expect((await provider.resolve(['token'], other)).size).toBe(0);
    expect((await provider.resolve(['token'], { ...acme, environmentId: 'test' })).size).toBe(0);
  });

  test('broken JSON is an error that does not show it', async () => {
    expect(await codeOf(new EnvSecretsProvider({ env }).resolve(['bad'], acme))).toBe('SECRET_INVALID');
  });
});

describe('file', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'runledger-secrets-'));
  });
  afterAll(() => rm(folder, { recursive: true }));
  const fileWith = async (name: string, text: string): Promise<FileSecretsProvider> => {
    await writeFile(join(folder, name), text, { mode: 0o600 });
    return new FileSecretsProvider(join(folder, name));
  };

  test('ES-2b the narrowest scope of the asking tenant and environment wins, and no other is seen', async () => {
    const file = await fileWith(
      'a.json',
      JSON.stringify({
        token: 'shared',
        $scopes: { acme: { token: 'acme', only: 'x' }, 'acme/prod': { token: 'acme-prod' }, other: { secret: 'y' } },
      }),
    );
    const ask = async (name: string, scope: typeof acme) => (await file.resolve([name], scope)).get(name);
    expect(await ask('token', acme)).toBe('acme-prod');
    expect(await ask('token', { ...acme, environmentId: 'test' })).toBe('acme');
    expect(await ask('token', other)).toBe('shared');
    expect(await ask('only', acme)).toBe('x');
    expect(await ask('only', other)).toBeUndefined();
    expect(await ask('secret', acme)).toBeUndefined();
    expect(await ask('$scopes', acme)).toBeUndefined();
    expect(await ask('toString', acme)).toBeUndefined();
  });

  test('lines of NAME=value are read', async () => {
    const file = await fileWith(
      'b.env',
      '# comment\n\nexport A=plain value \nB="two\\nlines"\nC=\'as $it is\'\nD=a=b\n',
    );
    const found = await file.resolve(['A', 'B', 'C', 'D'], acme);
    expect(Object.fromEntries(found)).toEqual({ A: 'plain value', B: 'two\nlines', C: 'as $it is', D: 'a=b' });
  });

  test('a file that others can open is refused, and one that changes is read again', async () => {
    const file = await fileWith('c.json', '{"a": "1"}');
    expect((await file.resolve(['a'], acme)).get('a')).toBe('1');
    await writeFile(join(folder, 'c.json'), '{"a": "22"}');
    expect((await file.resolve(['a'], acme)).get('a')).toBe('22');
    await chmod(join(folder, 'c.json'), 0o640);
    expect(await codeOf(file.resolve(['a'], acme))).toBe('CONFIG_INVALID');
  });

  test.each(['{"a": ', '{"$scopes": 5}', 'no line of this kind'])('%s is refused without being shown', async (text) => {
    const file = await fileWith('d.json', text);
    expect(await codeOf(file.resolve(['a'], acme))).toBe('CONFIG_INVALID');
    await expect(file.resolve(['a'], acme)).rejects.not.toThrow(text);
  });

  test('a file that is not there is said so', async () => {
    expect(await codeOf(new FileSecretsProvider(join(folder, 'none')).resolve(['a'], acme))).toBe('CONFIG_INVALID');
  });
});

describe('resolving', () => {
  const providers = [
    new EnvSecretsProvider({ env: { RUNLEDGER_SECRET_A: 'first' } }),
    new EnvSecretsProvider({
      env: { RUNLEDGER_SECRET_A: 'second', RUNLEDGER_SECRET_B: '{"user": "u", "password": "p"}' },
    }),
  ];
  const resolver = new SecretResolver(providers);

  test('the first provider that has the name answers; none is an error that names who asked', async () => {
    expect(await resolver.resolve('a', acme)).toBe('first');
    expect(await resolver.resolve('b', acme)).toEqual({ user: 'u', password: 'p' });
    expect(await codeOf(resolver.resolve('c', acme))).toBe('SECRET_NOT_FOUND');
    await expect(resolver.resolve('c', acme)).rejects.toThrow(/acme.*prod/);
  });

  test('ES-2a the tool records a reference, and fields that hold it get the value', async () => {
    const context = callContext({ secret: (name) => resolver.resolve(name, acme) });
    const whole = await secretsTool().call({ auth: 'b' }, context);
    const part = await secretsTool().call({ auth: 'b', field: 'password' }, context);
    expect(whole).toEqual({ status: 'ok', result: { _secret: { name: 'b' } } });
    expect(part).toEqual({ status: 'ok', result: { _secret: { name: 'b', field: 'password' } } });
    const fields = { auth: whole.result, headers: { x: [part.result, 'plain'] }, n: 1 };
    expect(await resolveSecretReferences(fields, context.secret)).toEqual({
      auth: { user: 'u', password: 'p' },
      headers: { x: ['p', 'plain'] },
      n: 1,
    });
  });
});

toolSuite('secrets', {
  open: () => secretsTool(),
  context: () => ({ secrets: { main: { token: 'hidden-1' } } }),
  cases: [
    { title: 'a secret', input: { auth: 'main', field: 'token' }, effect: 'read' },
    { title: 'no secret', input: { auth: 'none' }, effect: 'read', fails: 'secrets' },
    { title: 'no field', input: { auth: 'main', field: 'none' }, effect: 'read', fails: 'secrets' },
  ],
});

test('a secret that is missing names the variable and the file in which it is looked for', async () => {
  const env = new EnvSecretsProvider({ env: {} });
  const home = await mkdtemp(join(tmpdir(), 'runledger-howto-'));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  const path = join(home, 'secrets.env');
  await writeFile(path, 'A=1\n', { mode: 0o600 });
  const both = new SecretResolver([env, new FileSecretsProvider(path)]);
  await expect(both.resolve('api-token', acme)).rejects.toMatchObject({
    code: 'SECRET_NOT_FOUND',
    message: `there is no secret 'api-token' for tenant 'acme' and environment 'prod' (asked: env, file): set the environment variable RUNLEDGER_SECRET_API_TOKEN, or add 'api-token' to ${path}`,
  });
  // Variables that belong to others would not help.
  const theirs = new SecretResolver([new EnvSecretsProvider({ env: {}, scope: other })]);
  await expect(theirs.resolve('token', acme)).rejects.toMatchObject({
    message: expect.stringMatching(/\(asked: env\)$/),
  });
});
