import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadSettings } from './config.ts';

let cwd: string;
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'runledger-config-'));
});
afterAll(() => rmSync(cwd, { recursive: true, force: true }));

describe('the settings of Temporal', () => {
  test('runs are native and Temporal is where it is by default, unless somebody says otherwise', async () => {
    const settings = await loadSettings({ cwd, env: {}, configFile: false });
    expect(settings).toMatchObject({ engine: 'native', temporal: {} });
    const given = await loadSettings({ cwd, env: { RUNLEDGER_ENGINE: 'temporal' }, configFile: false });
    expect(given.engine).toBe('temporal');
  });

  test('a program wins over the environment, and that over the file, whose paths are meant from where it is', async () => {
    const file = join(cwd, 'own.json');
    const temporal = { address: 'file:1', namespace: 'file', taskQueue: 'q', tls: { caFile: 'ca.pem' } };
    writeFileSync(file, JSON.stringify({ engine: 'temporal', temporal }));
    const env = { TEMPORAL_ADDRESS: 'env:2', TEMPORAL_NAMESPACE: 'env', TEMPORAL_API_KEY: 'k' };
    const settings = await loadSettings({ cwd, env, configFile: file, given: { temporal: { address: 'own:3' } } });
    expect(settings.engine).toBe('temporal');
    expect(settings.temporal).toEqual({
      address: 'own:3',
      namespace: 'env',
      apiKey: 'k',
      taskQueue: 'q',
      tls: { caFile: join(cwd, 'ca.pem') },
    });
    const tls = { TEMPORAL_TLS_CERT: '/c', TEMPORAL_TLS_KEY: '/k' };
    expect((await loadSettings({ cwd, env: tls, configFile: false })).temporal).toEqual({
      tls: { certFile: '/c', keyFile: '/k' },
    });
  });

  test.each([
    [{ engine: 'mock' }, 'engine'],
    [{ temporal: 7 }, 'temporal'],
    [{ temporal: { adress: 'x' } }, 'adress'],
    [{ temporal: { address: '' } }, 'address'],
    [{ temporal: { queuePerTenant: 'yes' } }, 'queuePerTenant'],
    [{ temporal: { tenants: [1] } }, 'tenants'],
    [{ temporal: { tls: { ca: 'x' } } }, 'tls.ca'],
    [{ temporal: { searchAttributes: 'all' } }, 'searchAttributes'],
    [{ temporal: { workflow: { maxEvents: 0 } } }, 'maxEvents'],
  ])('%j is refused by its name', async (given, name) => {
    const loading = loadSettings({ cwd, env: {}, configFile: false, given: given as never });
    await expect(loading).rejects.toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining(name) });
  });

  test('an engine of the environment that does not exist is refused', async () => {
    const loading = loadSettings({ cwd, env: { RUNLEDGER_ENGINE: 'spark' }, configFile: false });
    await expect(loading).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
  });
});
